"""Reports: a run's page, and its summary for the terminal. They read the run's directory, nothing else."""
