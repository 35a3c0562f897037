"""Text to core values: the files that people write, and where they are."""
