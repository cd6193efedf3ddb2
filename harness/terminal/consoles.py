"""Consoles for standard output and standard error: coloured on a terminal, plain and wide in a file or pipe."""

from __future__ import annotations

import sys

from rich.console import Console

PLAIN_WIDTH = 120


def results() -> Console:
    """Standard output: the result of a command."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)


def progress() -> Console:
    """Standard error: progress messages."""
    return Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else PLAIN_WIDTH)
