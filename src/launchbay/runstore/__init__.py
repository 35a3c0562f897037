"""The SQLite index of runs: fast to ask, safe to delete."""
