"""Runs the command `harrow` as `python -m harness`: for child processes, and for clones that are not installed."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command, unless this Python is too old for it."""
    if sys.version_info < (3, 11):  # noqa: UP036 - pip checks it, and a clone runs without pip
        found = ".".join(map(str, sys.version_info[:2]))
        sys.stderr.write(f"harrow: expected Python 3.11 or newer, found {found}; use another\n")
        sys.exit(4)
    from harness.commands.cli import main as harrow

    harrow()


if __name__ == "__main__":
    main()
