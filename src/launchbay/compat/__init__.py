"""What the predecessors' users import, with the names that they know."""
