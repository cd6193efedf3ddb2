"""A small cluster whose every state can be copied and compared."""
