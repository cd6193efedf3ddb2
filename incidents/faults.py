"""A fault that took effect, as the table of a run has it, and the words that tell it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from common.wording import FIRST_CONTROLLER, moment, node, nodes
from history.contract import CRASHING_FIRST, DOWN_ALREADY
from incidents.deeds import DEEDS, DELAYING, EVENTS, RECIPES, meaning

_NOTHING_LOST = re.compile(r"\b0 bytes lost")
"""In the parameters of a simulated fault that could have lost data and did not."""
_OF_A_PARTITION = re.compile(
    r"(?<!\S)(?P<topic>[^\s/]{1,249})-(?P<partition>\d{1,10})/[^\s/]{1,99} (?:of|flipped|truncated)\b"
)
"""In what a damage to a disk did: the file of a partition that it flipped a bit of, truncated or removed."""
_DISK_LOST = "disk lost"
"""In those of one that lost what was synced, too: the simulation calls that a loss of the page cache."""

_ENDS = {"kill": "killed", "restart": "restarted"}
"""Kinds of faults that may find their node down already."""

FROM_BROKERS = "brokers"
"""What is noted of a fault that cuts a node off from brokers alone."""

_FROM = {
    FROM_BROKERS: "from the other brokers",
    "nodes": "from the other nodes",
    "controllers": "from the controllers",
}
"""From whom a node is cut off that others still reach."""

_ONE_WAY = re.compile(r"(?:(?P<channel>[a-z]+) )?from (?P<source>\d{1,9}) to (?P<target>\d{1,9})")
"""What a simulated fault notes that delays messages in one direction, on one connection or on all."""


class Fault(NamedTuple):
    """A fault that took effect. Times are nanoseconds of the run's clock."""

    number: int
    kind: str
    targets: frozenset[int]
    started_ns: int
    ended_ns: int | None
    lossy: bool
    partition: tuple[str, int] | None = None
    """The one of which it has changed a file; None if it changed none, or not a certain one."""
    detail: str = ""
    """What a simulated one noted of itself: "to 3" of a setting, `DOWN_ALREADY` of a node, "quorum from 100 to 101" of
    messages that it delayed; from whom one is cut off."""
    held_ns: int | None = None
    """When it was seen to have taken hold; until then its targets may still answer."""
    entry: int | None = None
    """Its place in the run's schedule."""

    @property
    def deed(self) -> str:
        """What it did to its target, with time and number: "lost its page cache at 22.834 s (fault #3)"."""
        return f"{self._did} {self._when}"

    @property
    def story(self) -> str:
        """Whom it hit, and what it did to them: "brokers 1 and 2 were paused at 3.120 s (fault #4)"."""
        if self.kind in RECIPES and not self.targets:
            return f"{meaning(self.kind)} began {self._when}"
        if self.kind == "changed-min-isr" and self.detail:
            return f"min.insync.replicas was set {self.detail} {self._when}"
        if self.kind in DELAYING and (way := _ONE_WAY.fullmatch(self.detail)) is not None:
            of = f" of the {way['channel']} connection" if way["channel"] else ""
            ends = f"{node(int(way['source']))} to {node(int(way['target']))}"
            return f"the messages{of} from {ends} were delayed {self._when}"
        if not self.targets:
            return f"{EVENTS.get(self.kind, f'there was the fault {self.kind}')} {self._when}"
        return f"{self._whom_and_what} {self._when}"

    def story_with(self, later: Sequence[Fault]) -> str:
        """The story of this one and of later ones that did the same to the same nodes."""
        if not later or not self.targets:
            return "; ".join(fault.story for fault in (self, *later))
        numbers = ", ".join(f"#{fault.number}" for fault in (self, *later))
        span = f"from {moment(self.started_ns)} to {moment(later[-1].started_ns)}"
        return f"{self._whom_and_what} {len(later) + 1} times {span} (faults {numbers})"

    @property
    def _whom_and_what(self) -> str:
        did = self._did
        if self.kind in _ENDS and self.detail == DOWN_ALREADY:
            did = f"was to be {_ENDS[self.kind]}, but was down already,"
        if len(self.targets) > 1:
            did = re.sub(r"^was\b", "were", re.sub(r"\bits\b", "their", did))
        return f"{nodes(self.targets)} {did}"

    @property
    def _did(self) -> str:
        did = DEEDS.get(self.kind, f"was under the fault {self.kind}")
        if self.kind == "interrupted-change" and not self.detail:
            return "was to lose power in the middle of its next changes to its files, from then on,"
        if self.kind == "brokers-from-controllers" and self.targets and min(self.targets) >= FIRST_CONTROLLER:
            return "was cut off from all brokers"
        if self.kind != "isolate" or self.detail not in _FROM:
            return did
        is_controller = bool(self.targets) and min(self.targets) >= FIRST_CONTROLLER
        whom = "from the brokers" if is_controller and self.detail == FROM_BROKERS else _FROM[self.detail]
        return f"{did} {whom}"

    @property
    def _when(self) -> str:
        return f"at {moment(self.started_ns)}" + (f" (fault #{self.number})" if self.number else "")

    def takes_records(self, topic: str, partition: int | None = None) -> bool:
        """Whether it can have taken a partition's records, or any of the topic's.

        Not on controllers alone, nor by a change to a file of another partition.
        """
        on_brokers = not self.targets or min(self.targets) < FIRST_CONTROLLER
        changed = self.partition or (topic, partition)
        return self.lossy and on_brokers and changed[0] == topic and partition in (None, changed[1])

    @property
    def took_by_ns(self) -> int:
        """When it had taken what it can take: at its beginning, if it crashes its node first."""
        return self.started_ns if self.kind in CRASHING_FIRST else self.ended_ns or self.started_ns

    def touches(self, start_ns: int, end_ns: int) -> bool:
        """Whether it lasted at some time of this stretch."""
        return self.started_ns <= end_ns and (self.ended_ns is None or self.ended_ns >= start_ns)


def read_fault(row: Mapping[str, Any], *, is_lossy: bool) -> Fault | None:
    """Return what a row of the table of faults tells; None of one that did not take effect.

    A kill or restart of a node that was down already only changes when it starts: it counts. `is_lossy`: whether faults
    of this kind may have taken what the run's system had written.
    """
    noted = _noted(row["parameters"])
    if row["started_ns"] is None or not (row["took_hold"] or noted == DOWN_ALREADY):
        return None
    return Fault(
        row["fault"] or 0,
        "disk-loss" if _DISK_LOST in (row["parameters"] or "") else row["kind"] or "unknown",
        frozenset(row["targets"] or ()),
        row["started_ns"],
        row["ended_ns"],
        is_lossy and not _NOTHING_LOST.search(row["parameters"] or ""),
        partition_of_file(row["evidence"] or ""),
        noted,
        row["held_ns"],
        row["schedule_entry"],
    )


def partition_of_file(evidence: str) -> tuple[str, int] | None:
    """Return the partition of which a fault has changed a file, by what it has noted; None if of none."""
    found = _OF_A_PARTITION.search(evidence)
    return None if found is None else (found["topic"], int(found["partition"]))


def _noted(parameters: str | None) -> str:
    """Return what a simulated fault noted of itself, or from whom one cuts off, by the parameters that are stored."""
    try:
        stored = json.loads(parameters or "")
    except ValueError:
        return ""
    noted = stored.get("what", stored.get("from")) if isinstance(stored, dict) else None
    return noted if isinstance(noted, str) else ""
