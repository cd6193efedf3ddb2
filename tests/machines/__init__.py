"""Reduced machines on which a stranger types the README's first command: see `python -m tests.machines --help`."""
