"""Reduced machines on which a new user runs the README's first command: see `python -m tests.machines --help`."""
