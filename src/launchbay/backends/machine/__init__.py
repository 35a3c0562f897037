"""One machine, and the queue of one user on it."""
