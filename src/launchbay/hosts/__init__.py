"""How to reach a machine."""
