"""`python -m harness`: the command `harrow`, for processes that start it again."""

from __future__ import annotations

from harness.cli import main

if __name__ == "__main__":
    main()
