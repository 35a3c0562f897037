"""A Slurm cluster, reached by its own programs."""
