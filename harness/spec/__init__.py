"""The specification of a run, and the readers of its files."""
