"""Triggers: conditions of the cluster's state that an entry of a schedule may wait for, besides a time.

    {"condition": "isr-at-most", "partition": 0, "value": 1}     the ISR of the first partition has one member or none

The cluster's metadata decides; while it is not available, no condition is true.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from nemesis.capabilities.cluster import Cluster

Condition = Literal[
    "isr-at-most",  # the partition has at most `value` replicas in its ISR
    "isr-at-least",
    "no-leader",  # the partition has none
    "has-elr",  # a replica of the partition is eligible for leadership without being in the ISR
    "leader-epoch-at-least",  # the partition has had at least so many leaders
    "no-controller",  # no controller is active
]

CONDITIONS: tuple[Condition, ...] = get_args(Condition)


@dataclass(frozen=True)
class Trigger:
    """A condition of one partition, or of the cluster."""

    condition: Condition
    partition: int = 0  # index into the cluster's partitions, modulo their number
    value: int = 0

    def __str__(self) -> str:
        value = f" {self.value}" if "-at-" in self.condition else ""
        where = "" if self.condition == "no-controller" else f" of partition {self.partition}"
        return f"{self.condition}{value}{where}"


def is_trigger(plain: object) -> bool:
    """Whether a decoded JSON value has the fields of a trigger."""
    if not isinstance(plain, dict) or plain.get("condition") not in CONDITIONS:
        return False
    numbers = {key: value for key, value in plain.items() if key != "condition"}
    return set(numbers) <= {"partition", "value"} and all(type(n) is int and n >= 0 for n in numbers.values())


class ObservedPartition(Protocol):
    """The state of a partition that conditions read."""

    @property
    def leader(self) -> int: ...

    @property
    def leader_epoch(self) -> int: ...

    @property
    def isr(self) -> Sequence[int]: ...

    @property
    def elr(self) -> Sequence[int]: ...


_HOLDS: dict[Condition, Callable[[ObservedPartition, int], bool]] = {
    "isr-at-most": lambda view, value: len(view.isr) <= value,
    "isr-at-least": lambda view, value: len(view.isr) >= value,
    "no-leader": lambda view, _: view.leader < 0,
    "has-elr": lambda view, _: bool(view.elr),
    "leader-epoch-at-least": lambda view, value: view.leader_epoch >= value,
}


def holds(trigger: Trigger, cluster: Cluster) -> bool:
    """Whether the condition is true now."""
    views = sorted(cluster.partitions(), key=lambda view: (view.topic, view.partition))
    return met(trigger, views, cluster.active_controller)


def met(trigger: Trigger, partitions: Sequence[ObservedPartition], active_controller: Callable[[], int | None]) -> bool:
    """Whether the condition is true of these partitions (sorted). Without partitions only `no-controller` can be."""
    if trigger.condition == "no-controller":
        return active_controller() is None
    return bool(partitions) and _HOLDS[trigger.condition](
        partitions[trigger.partition % len(partitions)], trigger.value
    )
