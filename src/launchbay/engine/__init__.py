"""What a user can do, without terminal or page."""
