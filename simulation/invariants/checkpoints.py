"""Checks what a broker's disk tells the next start: the checkpoints (P-30, P-46), and the logs of a clean stop (P-47).

Checkpoints are at most one interval old, and exact after a clean stop. They say less than the logs, never nothing:
without them a start after a crash believes that nothing is committed or on the disk, and that no record was deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from broker.core.broker_node.state import BrokerState
from broker.core.log import checkpoints
from broker.core.metadata.records import METADATA_DIRECTORY
from broker.core.ports.files import directory_of, name_in
from broker.core.replica.state import Replica
from simulation.engine.disk import SimulatedDisk
from simulation.engine.event_queue import MS
from simulation.engine.machine import SimulatedMachine
from simulation.invariants.ghost import Ghost, ReplicaMirror
from simulation.invariants.knowledge import BrokerMirror, Knowledge
from simulation.invariants.properties import Violation

_NAMES = (checkpoints.HIGH_WATERMARK, checkpoints.RECOVERY_POINT, checkpoints.LOG_START)


class Noted(NamedTuple):
    """A replica as it was one interval ago: what the checkpoints must say by now, or more."""

    replica: Replica
    truncations: int
    flushed: int
    start: int


def stepped(known: Knowledge, broker: BrokerMirror, machine: SimulatedMachine, now_us: int) -> None:
    """P-30 once an interval, after a step of a broker that runs.

    By the machine's clock: while it is frozen nothing can be written, and what was due is done in the moment in which
    it goes on. So what is late is looked at again after that moment.
    """
    clock_ms = machine.clock.now_ms(now_us)
    due = broker.checkpoints
    if due.incarnation != broker.incarnation:
        due.incarnation = broker.incarnation
        _note(known, broker, clock_ms)
    elif clock_ms >= due.at_ms:
        if due.late_since_us < 0:
            due.late_since_us = now_us
        elif now_us > due.late_since_us + MS:
            _check(known, broker, machine.disk)
            _note(known, broker, clock_ms)


def _note(known: Knowledge, broker: BrokerMirror, clock_ms: int) -> None:
    due = broker.checkpoints
    due.at_ms = clock_ms + known.settings.high_watermark_checkpoint_interval_ms + 1
    due.late_since_us = -1
    due.noted = {}
    for key, mirror in broker.mirrors.items():
        replica = mirror.replica
        if replica is not None and not mirror.offline:
            log = replica.log
            mirror.lowest_high_watermark = mirror.high_watermark
            due.noted[key] = Noted(replica, log.truncations, log.flushed_offset, log.start_offset)


def _check(known: Knowledge, broker: BrokerMirror, disk: SimulatedDisk) -> None:
    for key, mirror in broker.mirrors.items():
        noted = broker.checkpoints.noted.get(key)
        if not isinstance(noted, Noted) or noted.replica is not mirror.replica or mirror.offline:
            continue
        was_cut = noted.replica.log.truncations != noted.truncations
        least = (mirror.lowest_high_watermark, 0 if was_cut else noted.flushed, 0 if was_cut else noted.start)
        for name, expected, found in _compared(disk, key, noted.replica, least):
            if found is None or found < expected:
                ago_ms = known.settings.high_watermark_checkpoint_interval_ms
                _fail(known, broker, key, name, f"{_text(found)}; {ago_ms} ms ago it was {expected}")


def closed(known: Knowledge, broker: BrokerMirror, disk: SimulatedDisk) -> None:
    """P-30 when a broker has ended cleanly: the next process starts from what this one knew (BL-8)."""
    for key, mirror in broker.mirrors.items():
        replica = mirror.replica
        if replica is None or directory_of(replica.log.directory) in broker.failed_directories:
            continue  # maybe only since the last step
        log = replica.log
        exact = (replica.high_watermark, log.end_offset, log.start_offset)
        for name, expected, found in _compared(disk, key, replica, exact):
            if found != expected:
                _fail(known, broker, key, name, f"{_text(found)} after a clean stop, instead of {expected}")


def check_synced(broker: BrokerMirror, machine: SimulatedMachine) -> None:
    """P-47 when a broker has ended cleanly: a power failure takes nothing of any log (ST-5, BL-8).

    It may bring back what the start before had cut off as damaged: the next one cuts it off again. The metadata log of
    a node of both roles is its controller's, which has answered for it by then.
    """
    combined = machine.settings.is_controller
    for name in machine.disk.unsynced_logs():
        if directory_of(name) in broker.failed_directories or (combined and name.startswith(METADATA_DIRECTORY)):
            continue
        raise Violation("P-47", f"broker {broker.broker_id} has stopped cleanly, and {name} is not synced")


def check_recovery_point(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, replica: Replica) -> None:
    """P-46, when a log has been cut, or synced after a cut: what a start after a crash trusts is on the disk (ST-6)."""
    disk, log = known.cluster.machines[mirror.holder].disk, replica.log
    if disk.is_failing(log.directory):
        return
    points = checkpoints.read_checkpoint(disk, name_in(directory_of(log.directory), checkpoints.RECOVERY_POINT))
    point = 0 if isinstance(points, checkpoints.Unusable) else points.get(replica.key, 0)
    trusted = checkpoints.RewrittenRange(disk, log.directory).limit(point)
    if trusted > log.flushed_offset:
        known.fail(
            ghost,
            "P-46",
            f"broker {mirror.holder} would trust its log up to {trusted} after a crash: the checkpoint says {point}, "
            f"and after the latest cuts it has been synced up to {log.flushed_offset}",
        )


def check_certain(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, replica: Replica) -> None:
    """P-46, when a log is opened: what the start takes to be certain of it, it has (ST-6)."""
    log = replica.log
    if log.certain_end > log.end_offset:
        known.fail(
            ghost,
            "P-46",
            f"broker {mirror.holder} takes its log to be certain up to {log.certain_end}; it ends at {log.end_offset}",
        )


def check_names(known: Knowledge, broker: BrokerMirror, state: BrokerState) -> None:
    """P-46, when a broker has opened its logs: its checkpoints are about these, and none has committed what is cut off.

    A log that is created later under the name of another one would otherwise begin with what they say of that.
    """
    disk = known.cluster.machines[broker.broker_id].disk
    for index in range(len(state.settings.log_dirs)):
        name = name_in(index, checkpoints.HIGH_WATERMARK)
        if index in state.failed_directories or disk.is_failing(name):
            continue
        noted = checkpoints.read_checkpoint(disk, name)
        for key, offset in () if isinstance(noted, checkpoints.Unusable) else noted.items():
            replica = state.replicas.get(key)
            if replica is None or directory_of(replica.log.directory) != index:
                what = "there is no log"
            elif offset > replica.high_watermark:
                what = f"the log is committed up to {replica.high_watermark}"
            else:
                continue
            raise Violation(
                "P-46",
                f"broker {broker.broker_id} has opened its logs; its checkpoint of high watermarks has {offset} for "
                f"{key[0]}-{key[1]}, of which {what}",
            )


def _compared(
    disk: SimulatedDisk, key: tuple[str, int], replica: Replica, expected: tuple[int, int, int]
) -> Iterator[tuple[str, int, int | None]]:
    """Of each checkpoint: its name, what is expected of a partition, what it has."""
    directory = directory_of(replica.log.directory)
    for name, value in zip(_NAMES, expected, strict=True):
        offsets = checkpoints.read_checkpoint(disk, name_in(directory, name))
        yield name, value, None if isinstance(offsets, checkpoints.Unusable) else offsets.get(key)


def _text(found: int | None) -> str:
    return "nothing" if found is None else str(found)


def _fail(known: Knowledge, broker: BrokerMirror, key: tuple[str, int], name: str, what: str) -> None:
    mirror: ReplicaMirror = broker.mirrors[key]
    assert mirror.replica is not None
    ghost = known.ghost(key[0], mirror.replica.topic_id, key[1])
    known.fail(ghost, "P-30", f"broker {broker.broker_id} has in {name} {what}")
