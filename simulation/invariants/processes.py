"""Follows the processes of brokers and controllers: their starts, their ends, what a loss of power may take, and that a
broker that has ended leaves its logs alone (P-77).

The end of a process is seen in its last step, where it exits, or outside of it, where it is killed or its power fails.
"""

from __future__ import annotations

from broker.core.broker_node.state import BrokerState
from broker.core.messages import DeleteTopicsRequest
from broker.core.ports.events import Exit, RequestReceived
from broker.core.replica.state import Role
from history.contract import too_many_shutdowns
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.engine.machine import SimulatedMachine
from simulation.invariants import checkpoints, directories, log_files, messages, quorum, replicas
from simulation.invariants.administration import answers
from simulation.invariants.answers.asked import AsksControllers
from simulation.invariants.ghost import Ghost, ReplicaMirror
from simulation.invariants.knowledge import BrokerMirror, Knowledge
from simulation.invariants.properties import Violation


def started(known: Knowledge, broker: BrokerMirror, incarnation: int, state: BrokerState) -> None:
    """A new process has been seen for the first time: nothing is known of its state yet."""
    answers.broker_ended(known, broker.broker_id)
    if incarnation != broker.incarnation + 1 or state.failed_directories:
        known.failed_before.add(state.incarnation_id)
    broker.incarnation = incarnation
    broker.up = True
    broker.has_started = False
    broker.logs_at_end = None
    broker.broker_epoch = -1
    broker.image_end = 0
    broker.failed_directories = state.failed_directories
    known.ended_cleanly[state.incarnation_id] = broker.clean_epoch
    directories.opened(broker, known.cluster.machines[broker.broker_id])
    broker.clean_epoch = -1


def _ended(broker: BrokerMirror, clean_epoch: int) -> None:
    broker.up = broker.interrupted = False
    broker.clean_epoch = clean_epoch
    _forget_requests(broker)
    for mirror in broker.mirrors.values():
        mirror.role = Role.NONE


def _forget_requests(broker: BrokerMirror) -> None:
    """None of these will be answered."""
    broker.alterations.clear()
    broker.overtaken.clear()
    broker.fetches.clear()
    broker.sessions_accepted.clear()
    broker.reads.clear()
    broker.writes.clear()
    broker.group_requests.clear()
    broker.groups_seen.clear()
    broker.members_answered.clear()
    broker.asked.clear()
    broker.sessions.clear()
    broker.session_epochs.clear()
    broker.in_turn.clear()
    broker.deleting.clear()
    broker.compaction = None
    broker.followers.clear()
    broker.asking = AsksControllers()


def crashed(known: Knowledge, cluster: SimulatedCluster, node_id: int, lost_bytes: int) -> None:
    """A process has been killed, or its machine lost power (`lost_bytes` >= 0), its disk too if nothing is left."""
    voter, broker = known.voters.get(node_id), known.brokers.get(node_id)
    if voter is not None:
        quorum.ended(known, voter)
        answers.controller_ended(known, node_id)
        known.deciding.pop(node_id, None)  # it may have decided in the step that nobody saw the end of
    if broker is None:
        return
    machine = cluster.machines[node_id]
    disk_lost = lost_bytes >= 0 and not machine.disk.files
    if broker.up:
        for key, mirror in broker.mirrors.items():
            replicas.last_cut(known, known.ghost_held(broker, *key), mirror)
        broker.unseen = (broker.furthest, known.image.end_offset) if broker.interrupted else (0, 0)
        may_have_stopped = (machine.settings.is_controller or broker.interrupted) and _is_closed(broker)
        _ended(broker, clean_epoch=directories.clean_epoch(machine) if may_have_stopped else -1)
    elif machine.incarnation > broker.incarnation:
        # It has ended in the step in which it started, and may be registered.
        unseen = f"{node_id}/{machine.incarnation}"
        known.ended_cleanly[unseen] = broker.clean_epoch
        known.failed_before.add(unseen)
    if disk_lost:
        broker.clean_epoch = -1
    if lost_bytes >= 0:
        for key, mirror in broker.mirrors.items():
            power_lost(known, known.ghost_held(broker, *key), broker, mirror, disk_lost=disk_lost)


def exited(known: Knowledge, step: EventStep, machine: SimulatedMachine) -> None:
    """A process that ended in this step, cleanly if its status is 0; what was asked of it may be in its log."""
    if isinstance(step.event, RequestReceived) and isinstance(step.event.request, DeleteTopicsRequest):
        known.administered.interrupted.append(step.event.request)
    answers.controller_ended(known, step.node_id)
    known.deciding.pop(step.node_id, None)
    broker = known.brokers.get(step.node_id)
    if broker is None:
        return
    if isinstance(step.event, RequestReceived):
        messages.arrived(known, broker, step.event)
        _forget_requests(broker)
    if not broker.up:
        return
    broker.interrupted = not step.effects
    for effect in step.effects:
        if isinstance(effect, Exit) and effect.status == 0:
            checkpoints.closed(known, broker, machine.disk)
            checkpoints.check_synced(broker, machine)
            log_files.closed(known, broker, machine.disk)
            directories.closed(broker, machine)
            _ended(broker, clean_epoch=-1 if broker.failed_directories else broker.broker_epoch)


def check_at_rest(broker: BrokerMirror, state: BrokerState) -> None:
    """P-77, after a step of a node of both roles whose broker has ended: what its marker says holds (BL-8)."""
    logs = {key: (one.log.start_offset, one.log.end_offset, one.log.truncations) for key, one in state.replicas.items()}
    if broker.logs_at_end is None:
        broker.logs_at_end = logs
    for key, before in broker.logs_at_end.items():
        if logs.get(key) != before:
            raise Violation(
                "P-77",
                f"broker {broker.broker_id} has stopped, and then changed its log of {key[0]}-{key[1]} (start, end, "
                f"cuts) from {before} to {logs.get(key)}",
            )


def _is_closed(broker: BrokerMirror) -> bool:
    """Whether a broker's logs were flushed completely before it ended."""
    logs = [mirror.log for mirror in broker.mirrors.values() if mirror.log is not None]
    return all(log.flushed_offset == log.end_offset for log in logs)


def power_lost(
    known: Knowledge, ghost: Ghost | None, broker: BrokerMirror, mirror: ReplicaMirror, *, disk_lost: bool
) -> None:
    """ST-3, ST-4, ST-8: data that were not synced may be lost; if too many replicas lost data, nothing is promised."""
    mirror.power_lost = True
    if disk_lost:
        mirror.durable = 0
    if ghost is None or mirror.durable >= len(mirror.entries):
        return
    mirror.suspected |= broker.broker_id not in ghost.lossy
    ghost.lossy[broker.broker_id] = max(broker.broker_epoch, known.image.broker_epoch(broker.broker_id))
    if too_many_shutdowns(len(ghost.lossy), known.min_isr(ghost)):
        ghost.trusted = False
