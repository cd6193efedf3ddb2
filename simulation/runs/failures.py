"""Collects the failures that a simulation has shown, by layer: observer, final logs, the clients' history.

The checks of logs and history are plain Python, so that a sweep can afford them on every seed; they know fewer
anomalies than the checkers on Spark, use the same names, and must never find what those do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import combinations
from typing import NamedTuple

from broker.core.controller.changes import UNCLEAN
from broker.core.controller.recovery import LAST_LEADER
from common.wording import labelled
from history.anomalies import CATALOGUE
from history.contract import ACKS_ALL, loss_is_allowed, too_many_shutdowns
from simulation.invariants.knowledge import LAST_REPLICA_LOST
from simulation.invariants.properties import CORRUPT, data_excuse, divergence_excuse, with_excuse
from simulation.runs.deletions import Deletions
from simulation.runs.group_findings import group_anomalies
from simulation.scenario.configuration import Configuration
from simulation.scenario.phases import CRASH, SimulationOutcome
from simulation.workload.recording import OperationRow
from simulation.workload.sampling import ReplicaRecord, records_of
from simulation.workload.side_settings import LOSSES_ACCEPTED


class Layer(StrEnum):
    """What reveals a failure."""

    CRASH = "crash"
    INVARIANT = "invariant"
    LIVENESS = "liveness"
    LOGS = "logs"
    HISTORY = "history"


class SimulationFinding(NamedTuple):
    """One failure: `property_id` is a property of the protocol, or the name of an anomaly."""

    layer: Layer
    property_id: str
    what: str

    def __str__(self) -> str:
        return labelled(self.property_id, self.what)


def findings(outcome: SimulationOutcome) -> list[SimulationFinding]:
    """All failures of an outcome, in the order in which they were found."""
    found = []
    if outcome.failed_property is not None and outcome.failure is not None:
        found.append(SimulationFinding(_layer(outcome.failed_property), outcome.failed_property, outcome.failure))
    found += damage(outcome)
    if outcome.configuration.compacted:
        return found  # what is missing may have been compacted
    if "recovery" in outcome.phases:
        found += log_findings(outcome)
    if "final" in outcome.phases:
        found += history_findings(outcome)
    return found


def _layer(property_id: str) -> Layer:
    if property_id == CRASH:
        return Layer.CRASH
    if property_id == CORRUPT:
        return Layer.HISTORY
    return Layer.LIVENESS if property_id.startswith("V-") else Layer.INVARIANT


# --- logs ------------------------------------------------------------------------------------------------------------


def damage(outcome: SimulationOutcome) -> list[SimulationFinding]:
    """The first log of a running broker that cannot be read to its end."""
    for (broker, partition), log in sorted(outcome.logs.items()):
        if log.damage:
            what = f"partition {partition} of broker {broker}: {log.damage}"
            return [SimulationFinding(Layer.LOGS, CORRUPT, what)]
    return []


def log_findings(outcome: SimulationOutcome) -> list[SimulationFinding]:
    """Replicas that differ below both high watermarks (P-3), after everything was healed."""
    by_partition: dict[int, list[int]] = {}
    for broker, partition in sorted(outcome.logs):
        by_partition.setdefault(partition, []).append(broker)
    for partition, holders in by_partition.items():
        for one, other in combinations(holders, 2):
            if outcome.logs[one, partition] != outcome.logs[other, partition]:
                difference = _first_difference(outcome, partition, one, other)
                if difference is not None:
                    generation = outcome.configuration.generation
                    excuse = divergence_excuse(generation)
                    what = with_excuse(difference, generation, excuse)
                    return [SimulationFinding(Layer.LOGS, "divergent-replicas", what)]
    return []


def _first_difference(outcome: SimulationOutcome, partition: int, one: int, other: int) -> str | None:
    logs = outcome.logs[one, partition], outcome.logs[other, partition]
    low, high = max(log.start for log in logs), min(log.high_watermark for log in logs)
    of_one, of_other = ({row.offset: row for row in records_of(log.data)} for log in logs)
    for offset in range(low, high):
        if of_one.get(offset) != of_other.get(offset):
            texts = _record_text(of_one.get(offset)), _record_text(of_other.get(offset))
            return f"partition {partition} at {offset}: broker {one} has {texts[0]}, broker {other} has {texts[1]}"
    return None


def _record_text(record: ReplicaRecord | None) -> str:
    return "nothing" if record is None else f"{record.value} of epoch {record.leader_epoch}"


# --- history ---------------------------------------------------------------------------------------------------------


def history_findings(outcome: SimulationOutcome) -> list[SimulationFinding]:
    """The anomalies in the clients' history, worst first; the first case of each."""
    found: dict[str, list[str]] = {}
    generation, excuse = outcome.configuration.generation, _excuse(outcome)
    for name, what in _anomalies(outcome):
        found.setdefault(name, []).append(what)
    lost = lost_records(outcome) if found.keys() & LOST else []
    return [
        SimulationFinding(
            Layer.HISTORY,
            name,
            with_excuse(_first_of(found[name], [one for one in lost if one.anomaly == name]), generation, excuse),
        )
        for name in CATALOGUE
        if name in found
    ]


def _first_of(cases: Sequence[str], lost: Sequence[LostRecord]) -> str:
    """The first case, how many there are, and from where to where the lost records were, if it is about these."""
    if len(cases) == 1:
        return cases[0]
    offsets: dict[int, list[int]] = {}
    for record in lost:
        if record.offset is not None:
            offsets.setdefault(record.partition, []).append(record.offset)
    ranges = ", ".join(
        f"offsets {min(known)} to {max(known)} of partition {partition}" for partition, known in sorted(offsets.items())
    )
    return f"{cases[0]} (the first of {len(cases):,}{f': {ranges}' if ranges else ''})"


def _excuse(outcome: SimulationOutcome) -> str:
    """Why the protocol version may lose acknowledged records in this run; "" if it may not."""
    generation = outcome.configuration.generation
    if generation == "K4" and outcome.marks.get(LAST_LEADER.name, 0):
        return "the last known leader is elected even if it has lost data (UR-4)"
    return data_excuse(generation, sole_member_lost=bool(outcome.marks.get(LAST_REPLICA_LOST.name, 0)))


LOST = frozenset({"lost-acked-write", "lost-read"})
"""Anomalies of records that are missing in the final reads."""


class LostRecord(NamedTuple):
    """A record that is missing in the final reads, although it was acknowledged or read."""

    anomaly: str
    partition: int
    offset: int | None
    value: int
    at_ns: int | None
    """When it was acknowledged, or else first read."""


def lost_records(outcome: SimulationOutcome) -> list[LostRecord]:
    """All records that clients lost; none if the run was not read to its end, or the contract allows to lose them."""
    if "final" not in outcome.phases or outcome.configuration.compacted:
        return []
    return list(_lost(outcome, _Positions(outcome), Deletions(outcome)))


class _Positions:
    """Where each value was read: anywhere, and in the final reads."""

    def __init__(self, outcome: SimulationOutcome) -> None:
        self.operations = {row.op: row for row in outcome.history.operations}
        self.sends = {row.value: (row, self.operations[row.op]) for row in outcome.history.sends}
        self._acknowledged_ns: dict[tuple[int, int | None], int] = {}  # by offset: when a write to it was, last
        for send, operation in self.sends.values():
            if operation.status == "ok" and operation.completed_ns is not None:
                at = (send.partition, send.offset)
                self._acknowledged_ns[at] = max(operation.completed_ns, self._acknowledged_ns.get(at, 0))
        self.all: dict[int, set[tuple[int, int]]] = {}
        self.final: dict[int, set[tuple[int, int]]] = {}
        for read in outcome.history.reads:
            if read.value is not None and read.value in self.sends:
                position = read.partition, read.offset
                self.all.setdefault(read.value, set()).add(position)
                if self.operations[read.op].phase == "final":
                    self.final.setdefault(read.value, set()).add(position)

    def is_overwritten(self, value: int) -> bool:
        """Whether a later write was acknowledged at the offset of this one, by acks=all: no deletion explains that."""
        send, operation = self.sends[value]
        if operation.status != "ok" or send.acks != ACKS_ALL or send.offset is None or operation.completed_ns is None:
            return False
        return self._acknowledged_ns[send.partition, send.offset] > operation.completed_ns


def _lost(outcome: SimulationOutcome, positions: _Positions, deletions: Deletions) -> Iterator[LostRecord]:
    if _may_lose(outcome.configuration) or _lost_by_setting(outcome):
        return
    for value, (send, operation) in positions.sends.items():
        where = positions.all.get(value, set())
        if value in positions.final:
            continue
        if not positions.is_overwritten(value) and deletions.may_be_missing(send, operation, where):
            continue
        if operation.status == "ok" and send.acks == ACKS_ALL:
            yield LostRecord("lost-acked-write", send.partition, send.offset, value, operation.completed_ns)
        elif where:
            partition, offset = min(where)
            reads = (row for row in outcome.history.reads if row.value == value)
            at_ns = min(positions.operations[read.op].invoked_ns for read in reads)
            yield LostRecord("lost-read", partition, offset, value, at_ns)


def _loss_text(lost: LostRecord) -> str:
    partition = f"partition {lost.partition}"
    where = f"in {partition}" if lost.offset is None else f"at {_position((lost.partition, lost.offset))}"
    what = "acknowledged" if lost.anomaly == "lost-acked-write" else "read"
    return f"value {lost.value} was {what} {where}, and the final reads do not show it"


def _anomalies(outcome: SimulationOutcome) -> Iterator[tuple[str, str]]:
    history = outcome.history
    positions = _Positions(outcome)
    exempt = _may_lose(outcome.configuration) or _lost_by_setting(outcome)
    idempotent = outcome.configuration.idempotence and not outcome.may_repeat
    deletions = Deletions(outcome)
    at: dict[tuple[int, int], int] = {}
    for read in history.reads:
        position = read.partition, read.offset
        if read.value is None or read.value not in positions.sends:
            yield "phantom-read", f"value {read.value} was read at {_position(position)}, and no client sent it"
            continue
        if at.setdefault(position, read.value) != read.value and not exempt:
            yield (
                "inconsistent-offset",
                f"at {_position(position)} value {at[position]} was read, and later value {read.value}",
            )
    for lost in _lost(outcome, positions, deletions):
        yield lost.anomaly, _loss_text(lost)
    for value, (send, operation) in positions.sends.items():
        where = positions.all.get(value, set())
        if operation.status == "fail" and where:
            yield (
                "aborted-read",
                f"value {value} was read at {_position(min(where))}, and its send had certainly failed",
            )
        offset_agrees = send.offset is None or not where or (send.partition, send.offset) in where
        # Else another copy may remain: of a retry, or of an attempt that reappeared after an allowed loss.
        binding = not exempt and (idempotent or not deletions.may_be_missing(send, operation, where))
        if not offset_agrees and send.acks == ACKS_ALL and binding:
            what = (
                f"value {value} was read at {_position(min(where))}, and had been acknowledged at offset {send.offset}"
            )
            yield "wrong-offset", what
        # Where losses are allowed a record may be lost at one position and kept at another, but not be at two at once.
        copies = positions.final.get(value, set()) if exempt else where
        if len(copies) > 1 and idempotent and send.acks == ACKS_ALL:
            yield "duplicate", f"value {value} is at {' and at '.join(_position(one) for one in sorted(copies))}"
    if not exempt:
        yield from group_anomalies(history)
        durable = [(value, *pair) for value, pair in positions.sends.items() if pair[0].acks == ACKS_ALL]
        yield from _reordered([(send.partition, send.offset, value, op) for value, send, op in durable])


def _may_lose(configuration: Configuration) -> bool:
    """Whether the contract allows to lose acks=all records by what this configuration may do to its brokers."""
    unclean = configuration.unclean_election or configuration.unclean_recovery == "Aggressive"
    lossy = too_many_shutdowns(configuration.lossy_budget, configuration.min_insync_replicas)
    return bool(loss_is_allowed(ACKS_ALL, replicas_failed=unclean or lossy, leader_failed=False))


def _lost_by_setting(outcome: SimulationOutcome) -> bool:
    """Whether a leader was elected uncleanly in a run in which an operator has asked for that at run time.

    The clients' history does not tell when that was in force; the observer judges each election by what is committed.
    """
    return bool(outcome.marks.get(LOSSES_ACCEPTED.name)) and bool(outcome.marks.get(UNCLEAN.name))


def _reordered(sends: Sequence[tuple[int, int | None, int, OperationRow]]) -> Iterator[tuple[str, str]]:
    """A send that was acknowledged before another began must have the lower offset."""
    by_partition: dict[int, list[tuple[int, int, int, OperationRow]]] = {}
    for partition, offset, value, operation in sends:
        if offset is not None and operation.status == "ok" and operation.completed_ns is not None:
            by_partition.setdefault(partition, []).append((operation.completed_ns, offset, value, operation))
    for partition, completed in by_partition.items():
        completed.sort(key=lambda row: row[:3])
        invoked = sorted(completed, key=lambda row: (row[3].invoked_ns, row[2]))
        highest, before, position = -1, 0, 0
        for _, offset, value, operation in invoked:
            while completed[position][0] < operation.invoked_ns:
                if completed[position][1] > highest:
                    highest, before = completed[position][1:3]
                position += 1
            if offset < highest:
                earlier = f"value {before} had been acknowledged at {_position((partition, highest))}"
                yield "reordered-send", f"value {value} was sent after {earlier}, and is at offset {offset}"


def _position(position: tuple[int, int]) -> str:
    return f"offset {position[1]} of partition {position[0]}"
