"""Checks that a recovery elects the longest log that the controller has heard of, and hears of enough (P-25).

And that recoveries have a reason (P-68).
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.core.controller.state import ControllerState, RecoveryJob
from broker.core.messages import GetReplicaLogInfoResponse, ReplicaLogInfo
from broker.core.metadata.image import Image
from broker.core.metadata.records import PartitionState
from broker.core.ports.events import Event, RequestFailed, ResponseReceived
from simulation.invariants import losses
from simulation.invariants.ghost import Ghost
from simulation.invariants.knowledge import Deciding, Knowledge
from simulation.invariants.metadata import is_unclean, losses_accepted


def decided(known: Knowledge, controller: ControllerState, event: Event) -> None:
    """P-25: after each step of a controller that is active in K5 and looks for the longest log."""
    node = controller.settings.node_id
    if not controller.active:
        known.deciding.pop(node, None)
        return
    begins = node not in known.deciding
    now = controller.image.end_offset, bool(controller.recoveries)
    if not begins and known.decided_at.get(node) == now and not controller.recoveries:
        return
    known.decided_at[node] = now
    partitions = known.deciding.setdefault(node, {})
    present = _answered(controller.image, event)
    unclean: list[tuple[str, int, int]] = []
    for topic in controller.image.topics.values():
        for number, state in topic.partitions.items():
            key = (topic.topic_id, number)
            before = partitions.get(key)
            heard = {} if before is None else {**before.heard, **present.get(key, {})}
            if before is not None and not begins and before.state is not state and is_unclean(before.state, state):
                ghost = known.ghost(topic.name, *key, controller.image)
                check_longest(known, ghost, before, state.leader, heard, controller.image)
                check_needed(known, ghost, before, state, heard, controller.image)
                if state.leader not in before.state.isr + before.state.elr:
                    unclean.append((topic.name, number, state.leader_epoch))
            job = controller.recoveries.get(key)
            if job is None:
                partitions[key] = Deciding(state)
                continue
            goes_on = before is not None and before.job is job
            _check_reason(known, known.ghost(topic.name, *key, controller.image), state, job, before, event)
            min_isr = (
                before.min_isr
                if before and goes_on
                else _min_isr_then(known, known.ghost(topic.name, *key, controller.image), controller.image)
            )
            logs = {member: _length(info) for member, info in job.infos.items()}
            partitions[key] = Deciding(state, logs, job, min_isr)
    losses.decided(known, node, controller.losses, unclean, begins=begins)


def _check_reason(
    known: Knowledge, ghost: Ghost, state: PartitionState, job: RecoveryJob, before: Deciding | None, event: Event
) -> None:
    """P-68. A recovery may begin again after an answer, or none, to it or another one of the same request."""
    if job.partition_epoch == state.partition_epoch and state.leader >= 0:
        known.fail(ghost, "P-68", f"a recovery asks for logs, though broker {state.leader} leads")
    earlier = before.job if before is not None else None
    if (
        earlier is not None
        and earlier is not job
        and not isinstance(event, (ResponseReceived, RequestFailed))
        and (earlier.partition_epoch, earlier.settings) == (job.partition_epoch, job.settings)
        and job.needed == earlier.needed != ()
    ):
        known.fail(
            ghost,
            "P-68",
            f"a recovery has begun again, though nothing has changed since partition epoch {job.partition_epoch}: it "
            f"still needs the logs of {list(job.needed)}",
        )


def _answered(image: Image, event: Event) -> dict[tuple[str, int], dict[int, tuple[int, int]]]:
    """The logs in an answer that has just come, if its sender is active in the incarnation that sent it."""
    response = event.response if isinstance(event, ResponseReceived) else None
    if not isinstance(response, GetReplicaLogInfoResponse):
        return {}
    sender = next((one for one in image.brokers.values() if one.epoch == response.broker_epoch), None)
    if sender is None or not sender.active:
        return {}
    return {
        (info.topic_id, info.partition): {sender.broker_id: _length(info)}
        for info in response.partitions
        if not info.error_code
    }


def _length(info: ReplicaLogInfo) -> tuple[int, int]:
    return info.last_written_leader_epoch, info.log_end_offset


def check_longest(
    known: Knowledge,
    ghost: Ghost,
    before: Deciding,
    leader: int,
    heard: dict[int, tuple[int, int]],
    image: Image,
) -> None:
    """P-25: the longest log is elected; of the last known ELR, where losses are not accepted and it is complete.

    A recovery that began before losses were accepted may still elect one of the last known ELR. One goes on with the
    min ISR with which it began, or begins again with another. The `image` of the controller that decides may be ahead
    of what is committed, with settings that will be committed before its decision.
    """
    best = max(heard.values(), default=None)
    ahead = image.end_offset > known.image.end_offset
    accepted = losses_accepted(known, ghost) or (ahead and losses_accepted(known, ghost, image))
    if best is None and not accepted:
        return  # nobody wanted it: P-1 judges what it loses
    remembered = before.state.last_known_elr  # UR-8: they come first
    among_them = max((log for member, log in heard.items() if member in remembered), default=best)
    min_isrs = (known.min_isr(ghost), _min_isr_then(known, ghost, image), before.min_isr)
    allowed = {among_them if len(remembered) >= min_isr else best for min_isr in min_isrs}
    if accepted:
        allowed.add(best)
    if best is None or heard.get(leader) not in allowed:
        logs = ", ".join(f"{member}: {end} of epoch {epoch}" for member, (epoch, end) in sorted(heard.items()))
        known.fail(
            ghost,
            "P-25",
            f"broker {leader} was elected uncleanly; the log ends that the controller has heard of: {logs or 'none'}",
        )


def check_needed(
    known: Knowledge,
    ghost: Ghost,
    before: Deciding,
    after: PartitionState,
    heard: Mapping[int, tuple[int, int]],
    image: Image,
) -> None:
    """P-25, where losses are not accepted: all who had to answer have answered, and are remembered (UR-6, UR-10).

    These are the last known ELR, or all replicas if it is smaller than min ISR.
    """
    ahead = image.end_offset > known.image.end_offset
    if losses_accepted(known, ghost) or (ahead and losses_accepted(known, ghost, image)):
        return
    state = before.state
    min_isrs = {known.min_isr(ghost), _min_isr_then(known, ghost, image), before.min_isr}
    needed = [state.last_known_elr if len(state.last_known_elr) >= one else state.replicas for one in sorted(min_isrs)]
    kept = {*after.isr, *after.elr, *after.last_known_elr}
    if not any(set(members) <= heard.keys() for members in needed):
        known.fail(
            ghost,
            "P-25",
            f"broker {after.leader} was elected by its log; the controller has heard of the logs of {sorted(heard)}, "
            f"and needs those of {' or '.join(str(sorted(members)) for members in needed)}",
        )
    if min(min_isrs) > 1 and not any(set(members) <= kept for members in needed):
        known.fail(
            ghost,
            "P-25",
            f"broker {after.leader} was elected by its log beside those of "
            f"{' or '.join(str(sorted(members)) for members in needed)}, and only {sorted(kept)} are remembered",
        )


def _min_isr_then(known: Knowledge, ghost: Ghost, image: Image) -> int:
    """The effective min ISR by a controller's image, which may be ahead of what is committed."""
    if image.end_offset <= known.image.end_offset or ghost.state is None:
        return known.min_isr(ghost)
    return min(image.min_insync_replicas(ghost.topic, known.min_isr_of_files), len(ghost.state.replicas))
