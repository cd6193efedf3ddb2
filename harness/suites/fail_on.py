"""Which failures of a suite decide its exit status."""

from __future__ import annotations

from enum import StrEnum


class FailOn(StrEnum):
    """Known failures never do."""

    ALL = "all"
    NEW = "new"
