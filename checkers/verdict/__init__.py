"""Judges findings by the contract, counts them, and forms the verdict of a run."""
