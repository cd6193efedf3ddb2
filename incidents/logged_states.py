"""Reads from nodes' own logs when a replica began to lead or to follow or cut its log, and when brokers were fenced.

Samples are half a second apart: a whole leadership may lie between two of them. A log has its moment, if its broker's
clock is the one of the run: so only logs of nodes on this machine are read, and none of a node whose clock a fault set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from incidents.node_logs import LogLine

ENVIRONMENTS: Final = frozenset({"local", "docker"})
"""Where nodes run on this machine, by its clock."""

_NAME: Final = r"(?P<topic>[\w.-]{1,249})-(?P<partition>\d{1,10})"
_ENDS: Final = (
    r" in epoch (?P<epoch>\d{1,10}), log end (?P<end>\d{1,19}), high watermark (?P<mark>\d{1,19}),"
    r" ISR \[(?P<isr>[\d, ]{0,99})\]"
)
_OURS: Final = (
    re.compile(rf"INFO {_NAME}: leads(?: again)?{_ENDS}"),
    re.compile(rf"INFO {_NAME}: leads, ISR \[(?P<isr>[\d, ]{{0,99}})\], high watermark (?P<mark>\d{{1,19}})"),
    re.compile(rf"INFO {_NAME}: follows (?P<leader>\d{{1,10}})(?:, cut to \d{{1,19}})?{_ENDS}"),
    re.compile(
        rf"INFO {_NAME}: (?:diverges from leader (?P<leader>\d{{1,10}}); )?cut from (?P<cut>\d{{1,19}}) to"
        r" (?P<end>\d{1,19})"
    ),
)
_KAFKAS: Final = (
    re.compile(
        rf"Leader {_NAME} with topic id \S{{1,99}} starts at leader epoch (?P<epoch>\d{{1,10}}) from offset"
        r" (?P<end>\d{1,19}) with partition epoch \d{1,10}, high watermark (?P<mark>\d{1,19}),"
        r" ISR \[(?P<isr>[\d, ]{0,99})\]"
    ),
    re.compile(
        rf"Follower {_NAME} starts at leader epoch (?P<epoch>\d{{1,10}}) from offset (?P<end>\d{{1,19}}) with"
        r" partition epoch \d{1,10} and high watermark (?P<mark>\d{1,19})\. Current leader is (?P<leader>\d{1,10})"
    ),
    re.compile(
        rf"leaderId=(?P<leader>\d{{1,10}}), fetcherId=\d{{1,10}}\] Truncating partition {_NAME} with"
        r" TruncationState\(offset=(?P<end>\d{1,19})"
    ),
)


_FENCED: Final = (
    re.compile(r"sessions of brokers \[(?P<brokers>[\d, ]{1,99})\] expired; fenced"),
    re.compile(r"modifying the registration for broker (?P<brokers>\d{1,10}): .{0,200}\bfenced=1\b"),
)
"""What controllers say of brokers that they fence: Harrow's own, and Kafka's."""


class LoggedState(NamedTuple):
    """What a line of a broker's log says of its replica. None: the line does not say it.

    `leader`: the broker itself if it leads, else the one that it follows.
    """

    at_ns: int
    broker: int
    leader: int | None
    leader_epoch: int | None
    log_end: int | None
    high_watermark: int | None
    isr: tuple[int, ...]
    is_cut: bool = False
    """Whether it says that the log was cut to `log_end`."""

    cut_from: int | None = None
    """Where the log ended before; None if it was not cut, or the line does not tell."""

    @property
    def role(self) -> str:
        """As samples have it."""
        return "leader" if self.leader == self.broker else "follower"


def logged_states(lines: Iterable[LogLine]) -> Mapping[tuple[str, int], tuple[LoggedState, ...]]:
    """Topic and partition → what the lines say of it, in the order of time."""
    found: dict[tuple[str, int], list[LoggedState]] = {}
    for line in lines:
        for pattern in (*_OURS, *_KAFKAS):
            match = pattern.search(line.text)
            if match is not None:
                where = (match["topic"], int(match["partition"]))
                found.setdefault(where, []).append(_state(line, match.groupdict()))
                break
    return {where: tuple(sorted(states, key=lambda one: one.at_ns)) for where, states in found.items()}


def _state(line: LogLine, found: Mapping[str, str | None]) -> LoggedState:
    is_cut = "mark" not in found
    leader = found.get("leader")
    if leader is None and not is_cut:
        leader = str(line.node)
    return LoggedState(
        line.at_ms * 1_000_000,
        line.node,
        None if leader is None else int(leader),
        _number(found.get("epoch")),
        _number(found.get("end")),
        _number(found.get("mark")),
        tuple(sorted(int(word) for word in (found.get("isr") or "").split(",") if word.strip())),
        is_cut,
        _number(found.get("cut")),
    )


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def fencings(lines: Iterable[LogLine]) -> list[tuple[int, int]]:
    """Return when which broker was fenced, by lines of controllers, in the order of time."""
    found: dict[tuple[int, int], None] = {}
    for line in lines:
        for pattern in _FENCED:
            match = pattern.search(line.text)
            for broker in match["brokers"].split(",") if match is not None else ():
                found[line.at_ms * 1_000_000, int(broker)] = None
    return sorted(found)
