"""Names the part files of a table, and lists those that hold its rows.

`part-WRITER-NNNNNN.parquet` is one part of a writer, `part-WRITER-NNNNNN_MMMMMM.parquet` holds the rows of all of its
parts from one number to another (`history.compaction`). Files of other names, as other tools write them, are parts too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

_NAME: Final = re.compile(r"part-(?P<writer>.+)-(?P<first>\d{6,})(?:_(?P<last>\d{6,}))?\.parquet")


class PartName(NamedTuple):
    """Which parts of a writer a file holds."""

    writer: str
    first: int
    last: int

    def __str__(self) -> str:
        united = "" if self.first == self.last else f"_{self.last:06d}"
        return f"part-{self.writer}-{self.first:06d}{united}.parquet"


def parsed(name: str) -> PartName | None:
    """Return what the name of a file says; None for a part that no writer of Harrow's has named."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    first = int(found["first"])
    return PartName(found["writer"], first, first if found["last"] is None else int(found["last"]))


def without_copies(names: Iterable[str]) -> list[str]:
    """Sort the names of part files, without those whose rows a united file holds as well.

    Both are there if the unification was interrupted before it had removed the parts.
    """
    every = sorted(names)
    ranges: dict[str, list[PartName]] = {}
    for part in filter(None, map(parsed, every)):
        if part.first < part.last:
            ranges.setdefault(part.writer, []).append(part)
    return [name for name in every if not _is_copied(parsed(name), ranges)]


def part_files(directory: Path) -> list[Path]:
    """Return the part files of a table, in the order of their names; none if there is no such directory."""
    return [directory / name for name in without_copies(path.name for path in directory.glob("part-*.parquet"))]


def _is_copied(part: PartName | None, ranges: dict[str, list[PartName]]) -> bool:
    return part is not None and any(
        each.first <= part.first and part.last <= each.last and each != part for each in ranges.get(part.writer, ())
    )
