"""Reads and writes Kafka's checkpoint files: one offset per partition, as text, in the log directory.

```
0                  format
2                  number of entries
orders 0 4711      topic, partition, offset
orders 1 42
```
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from broker.core.ports.files import Files

RECOVERY_POINT = "recovery-point-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"


class Unusable(NamedTuple):
    """A checkpoint that is missing, empty or garbage (ST-7): the caller has to continue without it."""

    reason: str


def read_checkpoint(files: Files, name: str) -> dict[tuple[str, int], int] | Unusable:
    """Offsets by (topic, partition), or why the file is unusable. All or nothing: a partial file counts as none."""
    data = files.read(name, 0, files.size(name))
    if not data:
        return Unusable(f"expected offsets in {name}, found no file or an empty one")
    try:
        version, count, *lines = data.decode().splitlines()
        offsets = {
            (topic, int(partition)): int(offset) for topic, partition, offset in (line.split() for line in lines)
        }
        complete = version == "0" and int(count) == len(lines) == len(offsets)
    except ValueError:
        complete, offsets = False, {}
    if not complete or min(offsets.values(), default=0) < 0 or not data.endswith(b"\n"):
        return Unusable(f"expected offsets in {name} in format 0, found {len(data)} bytes of something else")
    return offsets


def write_checkpoint(files: Files, name: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Write the offsets, atomically and durably."""
    lines = ["0", str(len(offsets))]
    lines += [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())]
    files.replace(name, ("\n".join(lines) + "\n").encode())
