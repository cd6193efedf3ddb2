"""Since when brokers and links have been undisturbed: what progress may be expected of is what no fault touches.

It is asked twice a virtual second, of the machines and the network, not of the nodes: a node that believes itself
undisturbed, or disturbed, does not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.core.controller.state import ControllerState, RecoveryJob
from broker.core.log.compaction.cleaning import Cleaning
from broker.core.log.log import Log
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.engine.machine import SimulatedMachine
from simulation.engine.node_views import leading
from simulation.engine.transport import SimulatedNetwork

INTERVAL_US = 500 * MS
"""How often the machines and the network are looked at."""

_FSYNC_US_MAX = 500
"""What an fsync takes on a disk that no fault has slowed down."""


@dataclass(slots=True)
class Stuck:
    """A replica, and since when its log has ended there, or is judged by that. Times are virtual microseconds."""

    log_end: int
    since_us: int


@dataclass(slots=True)
class Uncompacted:
    """A log that is to be compacted up to `end`, noted at virtual microseconds; it was cut so many times by then."""

    log: Log
    end: int
    truncations: int
    noted_us: int


class Unsynced(NamedTuple):
    """A log that is to be synced up to `end` in a time; noted at virtual microseconds, cut so many times by then."""

    log: Log
    truncations: int
    end: int
    within_us: int
    noted_us: int


class Expired(NamedTuple):
    """A log whose first segment, which ends at `end`, is to be deleted by its leader, since virtual microseconds."""

    log: Log
    leader_epoch: int
    end: int
    since_us: int


@dataclass(slots=True)
class Leaderless:
    """A partition without a leader, and who could be elected; noted at virtual microseconds."""

    why: str
    members: frozenset[int]
    since_us: int
    recovers_us: int = 0
    """When a recovery was last seen at work."""


@dataclass(slots=True)
class Calm:
    """Since when nothing disturbs a broker or a link, in virtual microseconds; no entry: never disturbed."""

    next_us: int = 0
    """When to look again."""

    nodes: dict[int, int] = field(default_factory=dict)
    """Node -> since when it has run, and reached a controller that a majority of the voters reaches."""

    looked_us: int = 0
    """When it was looked last; nobody looks while all nodes are frozen or down."""

    running: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Node -> its incarnation, and since when that has run without being frozen."""

    majority_us: int = 0
    """Since when a majority of the voters has been undisturbed, and has had the present controller."""

    links: dict[tuple[int, int], int] = field(default_factory=dict)
    """Two nodes, the lower number first -> since when messages have passed between them in both directions."""

    stuck: dict[tuple[str, int, int], Stuck] = field(default_factory=dict)
    """Topic id, partition and member of its ISR -> how far its log is, if it is too short and does not grow."""

    outside: dict[tuple[str, int, int], Stuck] = field(default_factory=dict)
    """Topic id, partition and replica -> since when it has been outside of the ISR, in one leader epoch; where fetches
    are small, since when its log has not grown, too."""

    epochs: dict[tuple[str, int], int] = field(default_factory=dict)
    """Topic id and partition -> the leader epoch in which the two above were noted."""

    failing: dict[tuple[int, int], tuple[int, bool]] = field(default_factory=dict)
    """Broker and log directory that has failed -> since when, and whether the broker has noticed."""

    unreported: dict[tuple[int, str, int], int] = field(default_factory=dict)
    """Broker, topic and partition -> since when the broker, not the committed metadata, has its replica offline."""

    unregistered: dict[int, int] = field(default_factory=dict)
    """Broker -> since when its process has run without being registered as active, by what is committed."""

    behind: dict[tuple[int, bool], tuple[int, int]] = field(default_factory=dict)
    """Node, and whether as a controller -> an offset of the metadata that was committed when it was noted, and when."""

    stopping: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Node -> its incarnation that was asked to stop, and when."""

    cleanings: dict[int, tuple[Cleaning, int]] = field(default_factory=dict)
    """Broker -> the compaction that is under way, and since when."""

    uncompacted: dict[tuple[int, str, int], Uncompacted] = field(default_factory=dict)
    """Broker, topic and partition -> how far its log should be compacted by now."""

    unsynced: dict[tuple[int, str, int], Unsynced] = field(default_factory=dict)
    """Broker, topic and partition -> how far its log should be synced by now."""

    expired: dict[tuple[int, str, int], Expired] = field(default_factory=dict)
    """Leader, topic and partition -> what retention gives up."""

    leaderless: dict[tuple[str, int], Leaderless] = field(default_factory=dict)
    """Topic id and partition -> who could lead it by what is committed, though nobody does."""

    waiting: dict[tuple[int, str, int], tuple[int, int]] = field(default_factory=dict)
    """Leader, topic and partition -> a high watermark that could be higher, and since when."""

    recoveries: dict[tuple[str, int], tuple[RecoveryJob, int, int]] = field(default_factory=dict)
    """Topic id and partition -> the recovery that the active controller has begun, when it was first seen, and since
    when all that it asks can answer."""

    alone: dict[int, tuple[tuple[int, ...], int]] = field(default_factory=dict)
    """Controller that leads though no majority can reach it -> its epoch and all voters' incarnations; since when."""

    keys: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Node -> what must stay the same for it to be undisturbed: its incarnation, the controller and its own."""

    def look(self, cluster: SimulatedCluster) -> bool:
        """Note what is disturbed now. Returns whether a controller is active that can commit."""
        now_us = cluster.now_us
        bad, mended = _disturbed_links(cluster), _mended_links(cluster, self.looked_us)
        was_asleep, self.looked_us = now_us - self.looked_us > 2 * INTERVAL_US, now_us
        for one, other in bad | mended:
            self.links[min(one, other), max(one, other)] = now_us
        controller = _working_controller(cluster, bad)
        for node_id, machine in cluster.machines.items():
            incarnation, since_us = self.running.get(node_id, (0, 0))
            if was_asleep or machine.node is None or machine.paused or machine.incarnation != incarnation:
                since_us = now_us
            self.running[node_id] = machine.incarnation, since_us
            key: tuple[int, ...] = ()
            if controller is not None and _is_sound(machine) and node_id not in cluster.network.uninformed:
                chosen = controller.settings.node_id
                if not _separates(bad, node_id, chosen):
                    other = cluster.machines[chosen].incarnation
                    key = machine.incarnation, chosen, other, controller.quorum.epoch
            if not key or self.keys.get(node_id) != key or _separates(mended, node_id, key[1]):
                self.nodes[node_id] = now_us
            self.keys[node_id] = key
        voters = [node_id for node_id, machine in cluster.machines.items() if machine.settings.is_controller]
        self.majority_us = sorted(self.since(node_id) for node_id in voters)[len(voters) // 2]
        return controller is not None

    def since(self, node_id: int) -> int:
        """Since when a node has been undisturbed."""
        return self.nodes.get(node_id, 0)

    def running_since(self, node_id: int) -> int:
        """Since when a node's process has run without being frozen, whatever becomes of its links and its disk."""
        return self.running.get(node_id, (0, 0))[1]

    def link_since(self, one: int, other: int) -> int:
        """Since when the link between two nodes has been undisturbed."""
        return self.links.get((min(one, other), max(one, other)), 0)


def _disturbed_links(cluster: SimulatedCluster) -> frozenset[tuple[int, int]]:
    network: SimulatedNetwork = cluster.network
    return frozenset(network.cut | network.stalled | {(source, target) for source, target, _ in network.late})


def _mended_links(cluster: SimulatedCluster, since_us: int) -> frozenset[tuple[int, int]]:
    """Those that messages have passed again since a moment: nobody may have looked while they did not."""
    network: SimulatedNetwork = cluster.network
    return frozenset(link for link, mended_us in network.mended_us.items() if mended_us >= since_us)


def _separates(bad: Iterable[tuple[int, int]], one: int, other: int) -> bool:
    return (one, other) in bad or (other, one) in bad


def _is_sound(machine: SimulatedMachine) -> bool:
    return (
        machine.node is not None
        and not machine.paused
        and machine.fsync_us <= _FSYNC_US_MAX
        and not machine.disk.failing
    )


def _working_controller(cluster: SimulatedCluster, bad: frozenset[tuple[int, int]]) -> ControllerState | None:
    """The active controller of the highest epoch, if it is undisturbed and reaches a majority that is."""
    controller = leading(cluster)
    if controller is None or cluster.transport.intercept is not None:
        return None
    own = controller.settings.node_id
    voters = [machine for machine in cluster.machines.values() if machine.settings.is_controller]
    sound = [one for one in voters if _is_sound(one) and not _separates(bad, own, one.settings.node_id)]
    has_majority = len(sound) > len(voters) // 2
    return controller if has_majority and cluster.machines[own] in sound else None
