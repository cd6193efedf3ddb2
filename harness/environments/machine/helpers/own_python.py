"""Builds commands that run our modules in a new Python interpreter."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

SAFE_PATH: Final = "-P"
"""Import nothing from the current directory: a user's directory may have a package `broker`, too."""


def module_command(module: str, *arguments: str) -> tuple[str, ...]:
    """`python -m module`, with the interpreter that runs us."""
    return (sys.executable, SAFE_PATH, "-m", module, *arguments)


def module_of(command: Sequence[str]) -> tuple[str, Sequence[str]] | None:
    """The module that a Python command runs, and its arguments; None if it runs no module."""
    words = [word for index, word in enumerate(command) if index > 1 or word != SAFE_PATH]
    return (words[2], words[3:]) if len(words) > 2 and words[1] == "-m" else None
