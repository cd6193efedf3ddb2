"""Where people read: a terminal with its colours, or a file or a pipe, wide enough not to break tables."""

from __future__ import annotations

import sys

from rich.console import Console

PLAIN_WIDTH = 120


def results() -> Console:
    """Standard output: what a command was asked for."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)


def progress() -> Console:
    """Standard error: how it goes."""
    return Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else PLAIN_WIDTH)
