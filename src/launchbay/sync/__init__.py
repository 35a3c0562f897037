"""The user's code, frozen and named by its content."""
