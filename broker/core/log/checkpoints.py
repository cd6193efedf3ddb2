"""Reads and writes the small files that tell the next start what it may trust (§17).

| file | where | says |
|---|---|---|
| checkpoints | in each log directory | the recovery point, high watermark and start of every partition's log |
| topic ids | in each log directory | of every partition that is there the topic id and the claim |
| cluster | in each log directory | the cluster that the directory belongs to |
| clean-shutdown marker | in each log directory | the last stop was clean (BL-8, BL-9) |
| rewritten range | in a log's own directory | offsets for which recovery point and high watermark may claim too much |

A checkpoint is Kafka's, one offset per partition, as text:

```
0                  format
2                  number of entries
orders 0 4711      topic, partition, offset
orders 1 42
```

The clean-shutdown marker is the last file written at a stop and the first deleted at a start. It holds the broker epoch
of the incarnation that stopped, by which the controller recognizes it (RG-5). With several log directories each has
one, and all of them must be valid. To detect a directory that is no longer in `log.dirs`, each then also holds the
number of directories; Kafka ignores that field.

A recovery point says that everything below it is on the disk. After a truncation the offsets above the cut are
rewritten, so an older recovery point claims too much, and so does a later high watermark, if a power failure brings
back what was cut off. Kafka rewrites the directory's checkpoint at each truncation; here the log stores in its own
directory the range that may have been rewritten and that a checkpoint may wrongly cover, until the log has been flushed
beyond it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from broker.core.ports.files import Files, name_in

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


TOPIC_IDS = "topic-ids"


class Claim(NamedTuple):
    """When a broker with several log directories took a log for its replica of a partition; of two the later counts.

    `broker_epoch` is that of its process, `failed_directories` how many of its directories had failed by then: both
    grow, and a partition gets a second log only when one more has failed.
    """

    broker_epoch: int
    failed_directories: int


def read_topic_ids(files: Files, name: str) -> dict[str, str]:
    """Topic ids by directory name; nothing if the file is missing or garbage."""
    return {directory: topic_id for directory, (topic_id, *_) in _read_topic_lines(files, name).items()}


def read_claims(files: Files, name: str) -> dict[str, Claim]:
    """Claims by directory name, of the logs that have one in the file of topic ids."""
    return {
        directory: Claim(int(claim[0]), int(claim[1]))
        for directory, (_, *claim) in _read_topic_lines(files, name).items()
        if claim
    }


def _read_topic_lines(files: Files, name: str) -> dict[str, list[str]]:
    data = files.read(name, 0, files.size(name))
    try:
        version, count, *lines = data.decode().splitlines()
        found = {words[0]: words[1:] for words in map(str.split, lines) if _is_topic_line(words)}
        complete = version == "0" and int(count) == len(lines) == len(found) and data.endswith(b"\n")
    except ValueError:
        return {}
    return found if complete else {}


def _is_topic_line(words: Sequence[str]) -> bool:
    return len(words) == 2 or (len(words) == 4 and all(word.isdecimal() for word in words[2:]))


def write_topic_ids(
    files: Files, name: str, topic_ids: Mapping[str, str], claims: Mapping[str, Claim] = MappingProxyType({})
) -> None:
    """Write the topic ids by directory name, atomically and durably, with the claims of the logs that have one."""
    lines = ["0", str(len(topic_ids))]
    for directory, topic_id in topic_ids.items():
        lines.append(" ".join(map(str, (directory, topic_id, *claims.get(directory, ())))))
    files.replace(name, ("\n".join(lines) + "\n").encode())


def write_checkpoint(files: Files, name: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Write the offsets, atomically and durably."""
    lines = ["0", str(len(offsets))]
    lines += [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())]
    files.replace(name, ("\n".join(lines) + "\n").encode())


CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


def read_clean_shutdown(files: Files, directory: int = 0, directories: int = 1) -> int | None:
    """Broker epoch of the incarnation that stopped cleanly; None if the stop was not clean or the file is garbage.

    `directory` is the index in `log.dirs` of the one to read, `directories` their number.
    """
    name = name_in(directory, CLEAN_SHUTDOWN)
    try:
        content = json.loads(files.read(name, 0, files.size(name)))
    except ValueError:
        return None
    if not isinstance(content, dict) or content.get("version") != 0 or content.get("logDirs", 1) != directories:
        return None
    epoch = content.get("brokerEpoch")
    return epoch if type(epoch) is int else None


def write_clean_shutdown(files: Files, broker_epoch: int, directories: int = 1) -> None:
    """BL-8: mark this stop as clean, in every directory. The logs must have been closed cleanly before."""
    fields = {"version": 0, "brokerEpoch": broker_epoch}
    content = json.dumps(fields if directories == 1 else fields | {"logDirs": directories}).encode()
    for directory in range(directories):
        files.replace(name_in(directory, CLEAN_SHUTDOWN), content)


def delete_clean_shutdown(files: Files, directory: int = 0) -> None:
    """BL-9: delete the marker, before any log is opened for writing."""
    files.delete(name_in(directory, CLEAN_SHUTDOWN))


CLUSTER = "meta.properties"
_CLUSTER_ID = "cluster.id="


def read_cluster_id(files: Files, directory: int = 0) -> str | None:
    """The cluster that a log directory belongs to; None if the file is missing or does not say."""
    name = name_in(directory, CLUSTER)
    for line in files.read(name, 0, files.size(name)).decode(errors="replace").splitlines():
        if line.startswith(_CLUSTER_ID):
            return line.removeprefix(_CLUSTER_ID)
    return None


def write_cluster_id(files: Files, cluster_id: str, directory: int = 0) -> None:
    """Note the cluster that a log directory belongs to."""
    files.replace(name_in(directory, CLUSTER), f"version=1\n{_CLUSTER_ID}{cluster_id}\n".encode())


REWRITTEN_RANGE = "rewritten-range"
_EVERYTHING = (0, 1 << 62)


class RewrittenRange:
    """A log's range of offsets for which recovery points cannot be trusted; often empty."""

    __slots__ = ("_files", "_name", "_range")

    def __init__(self, files: Files, directory: str) -> None:
        """Load the stored range; garbage means that no recovery point is trusted."""
        self._files = files
        self._name = f"{directory}/{REWRITTEN_RANGE}"
        self._range: tuple[int, int] | None = None
        if REWRITTEN_RANGE in files.list(directory):
            self._range = _parse_range(files.read(self._name, 0, files.size(self._name)))

    def copy(self, files: Files) -> RewrittenRange:
        """A copy of the range on another disk."""
        twin = RewrittenRange.__new__(RewrittenRange)
        twin._files, twin._name, twin._range = files, self._name, self._range
        return twin

    @property
    def start(self) -> int | None:
        """Where the range begins: from there on a power failure may bring back what was cut off. None: nowhere."""
        return None if self._range is None else self._range[0]

    def limit(self, recovery_point: int) -> int:
        """The trusted part of the checkpointed recovery point; call it once, at opening."""
        if self._range is None:
            return recovery_point
        start, end = self._range
        self._range = (start, min(end, recovery_point))
        return min(recovery_point, start)

    def extend(self, start: int, end: int) -> None:
        """Extend the range by `start` to `end`, durably; must be done before a truncation."""
        if start >= end:
            return
        if self._range is not None:
            start, end = min(start, self._range[0]), max(end, self._range[1])
        self._range = (start, end)
        self._files.replace(self._name, f"{start} {end}\n".encode())

    def forget(self, flushed_offset: int) -> None:
        """Drop the range if the log has been flushed beyond its end."""
        if self._range is not None and flushed_offset >= self._range[1]:
            self._range = None
            self._files.delete(self._name)


def _parse_range(data: bytes) -> tuple[int, int]:
    try:
        start, end = (int(word) for word in data.decode().split())
    except ValueError:
        return _EVERYTHING
    return start, end
