"""Random correct logs, and what can be broken in one: each mutation returns the anomaly that it must show."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.checkers.histories import FINAL_READER, MS, History

LATE_MS = 60_000
"""After all clients of the main phase, before the final reads."""
LATE_READER = 901
STRANGE = 10**6
"""A value that no correct log holds."""


class Log:
    """A linearizable log with concurrent clients: every operation takes effect at one moment within its span."""

    def __init__(self, name: str, seed: int) -> None:
        self.choices = random.Random(seed)
        self.history = History(name)
        self.log: list[int] = []
        self._free_ms = dict.fromkeys((1, 2, 3, 4), 10)
        self._reader_ms = 10
        self._position = 0
        for value in range(100, 100 + self.choices.randint(5, 40)):
            self._send(value)
            if self.choices.random() < 0.4:
                self._poll()
        self.history.final(self.log)

    def _send(self, value: int) -> None:
        """Sends take effect in the order of this call, at the moment `now`, and each spans its moment."""
        choices = self.choices
        process = choices.choice(list(self._free_ms))
        now = max(*self._free_ms.values(), self._reader_ms) + choices.randint(1, 5)
        begins = choices.randint(self._free_ms[process], now)
        ends = now + choices.randint(0, 30)
        status = choices.choices(["ok", "info", "fail"], [8, 2, 1])[0]
        arrives = status == "ok" or (status == "info" and choices.random() < 0.5)
        offset = len(self.log) if status == "ok" else None
        self.history.send(value, (begins, ends), offset=offset, status=status, process=process)
        if arrives:
            self.log.append(value)
        self._free_ms = {other: max(free, now - 40) for other, free in self._free_ms.items()} | {process: ends + 1}

    def _poll(self) -> None:
        choices = self.choices
        seek = choices.random() < 0.1 or self._position == 0
        if seek:
            self._position = choices.randint(0, len(self.log))
        # Everything sent so far has taken effect by now.
        begins = max(*self._free_ms.values(), self._reader_ms) + 1
        records = self.log[self._position : self._position + choices.randint(1, 10)]
        self.history.poll(self._position, records, (begins, begins + 5), assigned=seek)
        self.history.latest(len(self.log), (begins + 6, begins + 7))
        self._position += len(records)
        self._reader_ms = begins + 8


def _final_reads(history: History) -> list[dict[str, Any]]:
    final = {row["op"] for row in history.tables["operations"] if row["process"] == FINAL_READER}
    return [row for row in history.tables["reads"] if row["op"] in final]


def acknowledged(log: Log) -> list[dict[str, Any]]:
    return [row for row in log.history.tables["sends"] if row["offset"] is not None]


def drop(log: Log) -> str:
    """The final reads go over an acknowledged record without returning it."""
    lost = log.choices.choice(acknowledged(log))["value"]
    reads = _final_reads(log.history)
    gone = next(row for row in reads if row["value"] == lost)
    log.history.tables["reads"] = [row for row in log.history.tables["reads"] if row is not gone]
    for poll in log.history.tables["polls"]:
        if poll["op"] == gone["op"]:
            poll["records"] -= 1
    return "lost-acked-write"


def duplicate(log: Log) -> str:
    """A record is read a second time at the end."""
    reads = _final_reads(log.history)
    twice = log.choices.choice(reads)
    end = len(log.log)
    log.history.row("reads", **{**twice, "offset": end, "ordinal": end, "run_id": log.history.name})
    poll = next(row for row in log.history.tables["polls"] if row["op"] == twice["op"])
    poll |= {"next_position": end + 1, "records": poll["records"] + 1}
    log.history.tables["ends"][0]["end_offset"] = end + 1
    return "duplicate"


def swap(log: Log) -> str:
    """Two sends have each other's offsets, in their acknowledgements only."""
    first, second = log.choices.sample(acknowledged(log), 2)
    first["offset"], second["offset"] = second["offset"], first["offset"]
    return "wrong-offset"


def corrupt(log: Log) -> str:
    """A value is read that no client sent."""
    log.choices.choice(_final_reads(log.history))["value"] = 10**9
    return "phantom-read"


def unsend(log: Log) -> str:
    """A send whose record is read had failed."""
    value = log.choices.choice(_final_reads(log.history))["value"]
    send = next(row for row in log.history.tables["sends"] if row["value"] == value)
    send["offset"] = None
    operation = next(row for row in log.history.tables["operations"] if row["op"] == send["op"])
    operation |= {"status": "fail", "completed_ns": operation["completed_ns"]}
    return "aborted-read"


def forget(log: Log) -> str:
    """An acknowledged record is not in the answer to a later question for the end."""
    last = max(acknowledged(log), key=lambda row: row["offset"])
    log.history.tables["runs"][0] |= {"brokers": 1, "replication_factor": 1, "min_insync_replicas": 1}
    log.history.latest(last["offset"], (50_000, 50_010))
    return "stale-read"


def alter(log: Log) -> str:
    """Bytes are read that no client sent."""
    log.choices.choice(_final_reads(log.history))["value"] = None
    return "corrupt-record"


def undo(log: Log) -> str:
    """A record that was read is not there in the end."""
    log.history.poll(0, log.log[:1], (LATE_MS, LATE_MS + 1), process=LATE_READER, assigned=True)
    gone = next(row for row in _final_reads(log.history) if row["offset"] == 0)
    log.history.tables["reads"] = [row for row in log.history.tables["reads"] if row is not gone]
    next(row for row in log.history.tables["polls"] if row["op"] == gone["op"])["records"] -= 1
    return "lost-read"


def show_early(log: Log) -> str:
    """A record is read that was never committed."""
    end = len(log.log)
    log.history.send(STRANGE, (LATE_MS, None), status="info", process=77)
    log.history.poll(end, [STRANGE], (LATE_MS + 1, LATE_MS + 2), process=LATE_READER, assigned=True)
    return "dirty-read"


def contradict(log: Log) -> str:
    """A reader is shown another record at an offset."""
    log.history.send(STRANGE, (LATE_MS, None), status="info", process=77)
    log.history.poll(0, [STRANGE], (LATE_MS + 1, LATE_MS + 2), process=LATE_READER, assigned=True)
    return "inconsistent-offset"


def delay(log: Log) -> str:
    """A send begins long after another had been acknowledged above it."""
    lower, higher = _two_sends(log)
    lower["process"] = higher["process"] + 1_000
    return "reordered-send"


def delay_own(log: Log) -> str:
    """The same within one process."""
    lower, higher = _two_sends(log)
    lower["process"] = higher["process"]
    return "nonmonotonic-send"


def throw_back(log: Log) -> str:
    """A reader finds itself before where it was."""
    log.history.poll(0, log.log[:2], (LATE_MS, LATE_MS + 1), process=LATE_READER, assigned=True)
    log.history.poll(0, log.log[:1], (LATE_MS + 2, LATE_MS + 3), process=LATE_READER)
    return "nonmonotonic-poll"


def skip(log: Log) -> str:
    """A reader is not given a record on its way."""
    log.history.poll(0, log.log[:1], (LATE_MS, LATE_MS + 1), process=LATE_READER, assigned=True)
    log.history.poll(1, [(2, log.log[2])], (LATE_MS + 2, LATE_MS + 3), process=LATE_READER)
    return "skipped-poll"


def shorten(log: Log) -> str:
    """The end of the log goes back."""
    log.history.tables["runs"][0] |= {"brokers": 1, "replication_factor": 1, "min_insync_replicas": 1}
    log.history.latest(len(log.log), (LATE_MS, LATE_MS + 1))
    log.history.latest(log.choices.randrange(len(log.log)), (LATE_MS + 2, LATE_MS + 3))
    return "end-offset-regression"


def diverge(log: Log) -> str:
    """Two replicas hold different records at one offset."""
    other = list(log.log)
    other[log.choices.randrange(len(other))] = STRANGE
    log.history.log(1, log.log)
    log.history.log(2, other)
    return "divergent-replicas"


def go_back_in_epochs(log: Log) -> str:
    """A replica's log has an older leader epoch behind a newer one."""
    newer = log.choices.randrange(1, len(log.log))
    log.history.log(1, log.log, epochs=[1] * newer + [0] * (len(log.log) - newer))
    return "epoch-regression"


def crown_two(log: Log) -> str:
    """Two brokers lead in one epoch."""
    log.history.sampled(LATE_MS, 1, 5)
    log.history.sampled(LATE_MS + 10, 2, 5, brokers=(2,))
    return "two-leaders"


def _two_sends(log: Log) -> tuple[dict[str, Any], dict[str, Any]]:
    """The operations of two acknowledged sends, the lower one moved behind the other in time."""
    lower, higher = sorted(log.choices.sample(acknowledged(log), 2), key=lambda row: row["offset"])
    operations = {row["op"]: row for row in log.history.tables["operations"]}
    moved = operations[lower["op"]]
    moved |= {"invoked_ns": LATE_MS * MS, "completed_ns": (LATE_MS + 1) * MS}
    return moved, operations[higher["op"]]


MUTATIONS: tuple[Callable[[Log], str], ...] = (
    drop,
    duplicate,
    swap,
    corrupt,
    unsend,
    forget,
    alter,
    undo,
    show_early,
    contradict,
    delay,
    delay_own,
    throw_back,
    skip,
    shorten,
    diverge,
    go_back_in_epochs,
    crown_two,
)
