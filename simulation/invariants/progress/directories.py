"""Checks that brokers and controller see in time that a log directory has failed (V-15).

During the fault, as long as nothing else touches the broker and a controller with a majority of the voters. A broker
writes into each of its directories once an interval, for the checkpoints, so it notices by then.
"""

from __future__ import annotations

from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.engine.node_views import broker_state
from simulation.invariants import directories
from simulation.invariants.knowledge import Knowledge
from simulation.invariants.progress.calm import INTERVAL_US
from simulation.invariants.properties import Violation


def check(known: Knowledge, cluster: SimulatedCluster, patience_us: int, *, works: bool) -> None:
    """V-15, twice a virtual second. `patience_us`: what a report to the controller may take."""
    _check_reported(known, cluster, patience_us, works=works)
    for broker_id in known.brokers:
        failed = _failed(known, cluster, broker_id)
        failing = known.calm.failing
        for key in [key for key in failing if key[0] == broker_id and key[1] not in failed]:
            del failing[key]
        for index, is_noticed in failed.items():
            since_us, was_noticed = failing.get((broker_id, index), (cluster.now_us, is_noticed))
            if was_noticed != is_noticed:
                since_us = cluster.now_us
            failing[broker_id, index] = since_us, is_noticed
            since_us = max(since_us, known.calm.since(broker_id))
            if is_noticed:
                if works and cluster.now_us - since_us > patience_us:
                    _check_recorded(known, cluster.now_us - since_us, broker_id, index)
            elif cluster.now_us - since_us > notices_within_us(known):
                raise Violation(
                    "V-15",
                    f"broker {broker_id} has not noticed for {(cluster.now_us - since_us) // MS} ms that its log "
                    f"directory {index} has failed",
                )


def _check_reported(known: Knowledge, cluster: SimulatedCluster, patience_us: int, *, works: bool) -> None:
    """A replica that its broker has offline, one that it could not create too, is so by what is committed."""
    calm = known.calm
    found: dict[tuple[int, str, int], int] = {}
    for broker_id in known.brokers:
        state = broker_state(cluster.machines[broker_id].node)
        if state is None or state.broker_epoch != known.image.broker_epoch(broker_id):
            continue
        for key in directories.unrecorded(known.image, state):
            found[broker_id, *key] = calm.unreported.get((broker_id, *key), cluster.now_us)
            since_us = max(found[broker_id, *key], calm.since(broker_id), calm.majority_us)
            if works and cluster.now_us - since_us > patience_us:
                raise Violation(
                    "V-15",
                    f"{key[0]}-{key[1]}: broker {broker_id} has had its replica offline for "
                    f"{(cluster.now_us - since_us) // MS} ms in which nothing has disturbed it, and the committed "
                    "metadata do not say so",
                )
    calm.unreported.clear()
    calm.unreported.update(found)


def notices_within_us(known: Knowledge) -> int:
    """How long a broker that nothing else disturbs may take a directory for good that has failed."""
    return known.settings.high_watermark_checkpoint_interval_ms * MS + 2 * INTERVAL_US


def _failed(known: Knowledge, cluster: SimulatedCluster, broker_id: int) -> dict[int, bool]:
    """The failed directories of a broker that is active, and whether it has noticed."""
    machine = cluster.machines[broker_id]
    state = broker_state(machine.node)
    if len(machine.settings.log_dirs) == 1 or state is None:
        return {}
    if not known.image.is_active(broker_id) or known.image.broker_epoch(broker_id) != state.broker_epoch:
        return {}
    failed = machine.disk.failing_directories | state.failed_directories.keys()
    return {index: index in state.failed_directories for index in sorted(failed)}


def _check_recorded(known: Knowledge, for_us: int, broker_id: int, index: int) -> None:
    for ghost in known.partitions.values():
        mirror, state = ghost.mirrors.get(broker_id), ghost.state
        if mirror is None or state is None or not mirror.offline or directories.of(mirror) != index:
            continue
        is_out = broker_id in state.offline and not directories.counts(known, state, broker_id)
        if broker_id in state.replicas and not is_out:
            raise Violation(
                "V-15",
                f"{ghost}: the replica of broker {broker_id} is in log directory {index}, which the broker has known "
                f"for {for_us // MS} ms to have failed; leader {state.leader}, ISR {list(state.isr)}, offline "
                f"{list(state.offline)}",
            )
