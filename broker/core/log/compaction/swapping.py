"""Puts a compacted segment in place of those it was made from, so that a crash leaves either the old or the new ones.

```
<base>.log.cleaned   written and synced beside the log           a start deletes it
<base>.log.swap      renamed: from here on the new one counts    a start finishes what follows
                     the old segments after the first are deleted, then the first one's indexes
<base>.log           renamed over the first old segment
```

Renames and deletions are durable at once (`Files`).
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.core.log.segments.indexes import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from broker.core.log.segments.segment import LOG_SUFFIX, Segment
from broker.core.ports.files import Files
from broker.core.records import HEADER_BYTES, MalformedBatch, read_header

CLEANED_SUFFIX = f"{LOG_SUFFIX}.cleaned"
SWAP_SUFFIX = f"{LOG_SUFFIX}.swap"


def cleaned_name(segment: Segment) -> str:
    """The file in which the successor of this segment, and of some that follow it, is written."""
    return segment.name.removesuffix(LOG_SUFFIX) + CLEANED_SUFFIX


def swap(files: Files, old: Sequence[Segment]) -> None:
    """Put the `.cleaned` file of the first of these segments, which is complete and synced, in place of all."""
    first = old[0].name.removesuffix(LOG_SUFFIX)
    files.rename(first + CLEANED_SUFFIX, first + SWAP_SUFFIX)
    _finish(files, first, [segment.name.removesuffix(LOG_SUFFIX) for segment in old[1:]])


def finish_swaps(files: Files, directory: str) -> None:
    """Finish or undo, at a start, what the last process did not finish."""
    names = files.list(directory)
    for name in names:
        if name.endswith(CLEANED_SUFFIX):
            files.delete(f"{directory}/{name}")
    for name in names:
        if not name.endswith(SWAP_SUFFIX):
            continue
        stem = name.removesuffix(SWAP_SUFFIX)
        end = _end_offset(files, f"{directory}/{name}", int(stem)) if stem.isdecimal() else None
        if end is None and stem + LOG_SUFFIX in names:
            files.delete(f"{directory}/{name}")  # damaged by something that is no crash
            continue
        bases = (one.removesuffix(LOG_SUFFIX) for one in names if one.endswith(LOG_SUFFIX))
        covered = [base for base in bases if base.isdecimal() and int(stem) < int(base) < (end or 0)]
        _finish(files, f"{directory}/{stem}", [f"{directory}/{base}" for base in covered])


def _finish(files: Files, first: str, others: Sequence[str]) -> None:
    for stem in others:
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX):
            files.delete(stem + suffix)
    files.delete(first + INDEX_SUFFIX)
    files.delete(first + TIME_INDEX_SUFFIX)
    files.rename(first + SWAP_SUFFIX, first + LOG_SUFFIX)


def _end_offset(files: Files, name: str, base_offset: int) -> int | None:
    """Where the batches in a file end (exclusive); None if they do not follow one another to the end of the file."""
    position, size = 0, files.size(name)
    offset = base_offset
    while position < size:
        try:
            header = read_header(files.read(name, position, HEADER_BYTES))
        except MalformedBatch:
            return None
        if header.base_offset != offset or position + header.size > size:
            return None
        offset = header.last_offset + 1
        position += header.size
    return offset
