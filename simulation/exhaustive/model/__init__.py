"""The model: a small cluster whose states can be copied and compared."""
