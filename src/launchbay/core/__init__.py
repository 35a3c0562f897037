"""What a job, a run and a backend are. Standard library only."""
