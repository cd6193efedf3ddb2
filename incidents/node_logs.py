"""Reads the logs of nodes: their lines with times, and what a log says at its end against one partition.

A log has times of day, with or without a date, in a zone that it does not name. The first node starts when the run
does: that gives the zone, a whole number of quarter hours. Where a fault moved a node's wall clock its lines are as
wrong as that was.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from common.wording import printable

TEXT_CHARACTERS: Final = 240
FILES_MAX: Final = 64
_READ_BYTES: Final = 4 << 20
_QUARTER_MS: Final = 15 * 60_000
_STAMP_WITHIN: Final = 60
_STAMP: Final = re.compile(r"\[?(?:(\d{4}-\d\d-\d\d)[ T])?([01]\d|2[0-3]):([0-5]\d):([0-5]\d)[.,](\d{3})\]?")
_DAY_MS: Final = 24 * 3_600_000
_COMPLAINT: Final = re.compile(r"\W*(?:ERROR|WARN|WARNING|FATAL)\b\W*")
_LAST_MS: Final = 30_000
"""A complaint that is older than this when a log ends was about something that is over."""


_BESIDE_OUTPUT = ("*/logs/state-change.log", "*/logs/controller.log")
"""What Apache Kafka writes to files of its own and not to its output: elections, ISRs, who is fenced."""


class LogLine(NamedTuple):
    """A line of a node's log. `at_ms` is on the run's clock, or on one that `stamped_lines` tells."""

    at_ms: int
    node: int
    text: str


class Complaint(NamedTuple):
    """What a node's log says against a partition when it ends, and how many lines say so, whatever their numbers."""

    text: str
    times: int

    def __str__(self) -> str:
        says = f"complains {self.times:,} times, at last" if self.times > 1 else "says"
        return f"its log {says}: “{self.text}”"


class Complaints(NamedTuple):
    """The warnings and errors of a node's log, and when the log ends."""

    lines: tuple[LogLine, ...]
    end_ms: int

    def against(self, topic: str, partition: int) -> Complaint | None:
        """The last one with the partition's name, if it is of the log's last half minute."""
        named = re.compile(rf"(?<![\w.-]){re.escape(topic)}-{partition}(?![\w-])")
        mine = [line for line in self.lines if named.search(line.text)]
        latest = max(reversed(mine), key=lambda line: line.at_ms, default=None)
        if latest is None or latest.at_ms < self.end_ms - _LAST_MS:
            return None
        same = _without_numbers(latest.text)
        times = sum(_without_numbers(line.text) == same for line in mine)
        return Complaint(_COMPLAINT.sub("", latest.text, count=1), times)


def first_like(complaint: Complaint, lines: Iterable[LogLine], node: int, name: str) -> int | None:
    """Return when a node's log first said the same of a partition, whatever the numbers: the `at_ms` of that line."""
    same = _without_numbers(complaint.text)
    alike = (line.at_ms for line in lines if line.node == node and name in line.text and _says(line) == same)
    return min(alike, default=None)


def _says(line: LogLine) -> str:
    return _without_numbers(_COMPLAINT.sub("", line.text, count=1))


def complaints_of(directory: Path, node: int) -> Complaints:
    """Read the logs of a node in a run's directory. No content of a log raises."""
    day = datetime.fromtimestamp(0, UTC)
    paths = sorted((directory / "nodes" / str(node)).glob("*.log"))
    lines = [line for path in paths for line in stamped_lines(path, day, node)]
    complaining = tuple(line for line in lines if _COMPLAINT.match(line.text))
    return Complaints(complaining, max((line.at_ms for line in lines), default=0))


def by_run_clock(directory: Path, started_unix_ms: object) -> list[LogLine]:
    """The lines with a time of all logs of a run, on its clock; none if it is not known when the run began.

    The end of each log is read, 4 MiB at most. No content of a log raises.
    """
    if not isinstance(started_unix_ms, int):
        return []
    try:
        day = datetime.fromtimestamp(started_unix_ms / 1000, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    except (OverflowError, OSError, ValueError):
        return []
    found = (path for pattern in ("*/*.log", *_BESIDE_OUTPUT) for path in (directory / "nodes").glob(pattern))
    paths = sorted(found)[:FILES_MAX]
    read = ((path, path.relative_to(directory / "nodes").parts[0]) for path in paths)
    logs = [list(stamped_lines(path, day, int(node))) for path, node in read if node.isdecimal()]
    earliest_ms = min((log[0].at_ms for log in logs if log), default=0)
    zone_ms = round((earliest_ms - started_unix_ms) / _QUARTER_MS) * _QUARTER_MS
    return [line._replace(at_ms=line.at_ms - zone_ms - started_unix_ms) for log in logs for line in log]


def stamped_lines(path: Path, day: datetime, node: int) -> Iterator[LogLine]:
    """The lines of a node's log that have a time, by the clock of UTC; of a long log those at its end.

    A time without a date is of `day`, and one that goes back is of the day after. No content of a log raises.
    """
    later_ms = before_ms = 0
    for line in _text(path).splitlines():
        found = _STAMP.search(line, 0, _STAMP_WITHIN)
        if found is None:
            continue
        date, hours, minutes, seconds, thousandths = found.groups()
        of_day = timedelta(
            hours=int(hours), minutes=int(minutes), seconds=int(seconds), milliseconds=int(thousandths)
        )  # fmt: skip
        try:
            began = datetime.fromisoformat(f"{date}T00:00:00+00:00") if date else day
        except ValueError:
            continue
        at_ms = round((began + of_day).timestamp() * 1000) + (0 if date else later_ms)
        if not date and at_ms < before_ms - _DAY_MS // 2:
            later_ms += _DAY_MS
            at_ms += _DAY_MS
        before_ms = at_ms
        text = printable(" ".join(f"{line[: found.start()]}{line[found.end() :]}".split()))
        cut = text if len(text) <= TEXT_CHARACTERS else f"{text[:TEXT_CHARACTERS]}…"
        yield LogLine(at_ms, node, cut)


def _without_numbers(text: str) -> str:
    return re.sub(r"\d+", "#", text)


def read_end(path: Path, most_bytes: int) -> str:
    """Return the end of a file as text. Raises `OSError`."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - most_bytes))
        return file.read(most_bytes).decode("utf-8", errors="replace")


def _text(path: Path) -> str:
    try:
        return read_end(path, _READ_BYTES)
    except OSError:
        return ""
