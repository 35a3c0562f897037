"""What travels to the node; nobody imports it."""
