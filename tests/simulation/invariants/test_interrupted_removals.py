"""A process that dies while it deletes a log that it may delete breaks nothing; any other log must be there (P-6)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from broker.core.log.log import Log
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.engine.disk import PowerFailed
from simulation.engine.event_queue import MS
from simulation.scenario.configuration import SimulatedFault
from simulation.workload.clients import TOPIC
from tests.simulation.invariants.planting import Plant, observe

WITHOUT_THE_LAST = 12
"""Of `shrunk-replicas`: the partition is left with brokers 1 and 2, until a while later."""


def revived() -> Plant:
    """Let a node whose power fails in the middle of a step be killed, and started a second later."""

    def die(cluster: SimulatedCluster, node_id: int) -> None:
        cluster.kill(node_id)
        cluster.after(1_000 * MS, partial(cluster.start, node_id))

    def arm(cluster: SimulatedCluster, _step: EventStep) -> bool:
        for node_id, machine in cluster.machines.items():
            machine.when_power_fails = partial(die, cluster, node_id)
        return True

    return Plant(arm, after_ms=0)


def die_in_the_first_deletion(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let the first broker that deletes a log with records die behind that; returns which logs that were."""
    delete, deleted = Log.delete, []

    def deletes(log: Log) -> None:
        delete(log)
        if log.end_offset and not deleted:
            deleted.append(log.directory)
            raise PowerFailed

    monkeypatch.setattr(Log, "delete", deletes)
    return deleted


def die_without_a_log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let the first follower of the partition that holds a few records delete its log, and die in that step."""
    append, lost = Log.append_as_follower, []

    def appends(log: Log, *batches: Any, **limits: Any) -> None:
        append(log, *batches, **limits)
        if log.directory == f"{TOPIC}-0" and log.end_offset > 20 and not lost:
            lost.append(log.directory)
            log.delete()
            raise PowerFailed

    monkeypatch.setattr(Log, "append_as_follower", appends)
    return lost


def shrunk(at_ms: int, for_ms: int) -> SimulatedFault:
    return SimulatedFault(at_ms, "shrunk-replicas", 0, 16 * for_ms, WITHOUT_THE_LAST)


def test_a_process_that_dies_while_it_deletes_a_log_that_is_not_assigned_to_it_breaks_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deleted = die_in_the_first_deletion(monkeypatch)
    outcome = observe(revived(), faults=[shrunk(8_000, 3_000)])
    assert deleted
    assert outcome.failure is None


@pytest.mark.parametrize("faults", [(), (shrunk(4_000, 10),)], ids=["never", "removed-long-before"])
def test_a_log_that_is_assigned_and_gone_after_an_interrupted_step_breaks_p_6(
    monkeypatch: pytest.MonkeyPatch, faults: tuple[SimulatedFault, ...]
) -> None:
    lost = die_without_a_log(monkeypatch)
    outcome = observe(revived(), faults=faults)
    assert lost
    assert outcome.failed_property == "P-6"
    assert "broker 3 lost no power, and its log" in str(outcome.failure), "the one that was removed long before"
