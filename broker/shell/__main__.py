"""Runs a node: `python -m broker.shell FILE.properties`."""

from __future__ import annotations

import sys
from typing import NoReturn

from broker.shell.main import EXIT_USAGE, run


def main() -> NoReturn:
    """Run a node, and exit with its status."""
    if len(sys.argv) != 2:
        print("usage: python -m broker.shell FILE.properties", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    sys.exit(run(sys.argv[1]))


if __name__ == "__main__":
    main()
