"""The specification of a run, and how its files are read."""
