"""Checks log directories: failures (P-33, P-34), markers (P-38), where new logs go (P-60), the cluster (P-65)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from broker.core.broker_node.state import BrokerState
from broker.core.log import checkpoints
from broker.core.metadata.image import Image
from broker.core.metadata.records import PartitionState
from broker.core.ports.files import directory_of
from broker.core.replica.state import Replica, Role
from simulation.engine.machine import SimulatedMachine
from simulation.invariants import committed, replicas
from simulation.invariants.ghost import Ghost, ReplicaMirror
from simulation.invariants.knowledge import BrokerMirror, Knowledge
from simulation.invariants.properties import Violation

_WITHOUT_ELR = ("K1", "K2", "K3")


def of(mirror: ReplicaMirror) -> int:
    """Index of the log directory that holds a replica's log."""
    return directory_of(mirror.log.directory) if mirror.log is not None else 0


def check_failures(broker: BrokerMirror, machine: SimulatedMachine) -> None:
    """P-34: a directory is given up only if the disk has refused something in it."""
    for index, why in broker.failed_directories.items():
        if index not in machine.disk.refused:
            raise Violation(
                "P-34", f"broker {broker.broker_id} has given up its log directory {index}, which works: {why}"
            )


def unrecorded(image: Image, state: BrokerState) -> Iterator[tuple[str, int]]:
    """The partitions of which a broker has its replica offline, and of which these metadata do not say so."""
    for (topic, partition), topic_id in state.offline.items():
        assigned, found = image.partition(topic, partition), image.topics.get(topic)
        if assigned is None or found is None or found.topic_id != topic_id:
            continue
        if state.broker_id in assigned.replicas and state.broker_id not in assigned.offline:
            yield topic, partition


def is_offline(
    known: Knowledge, broker: BrokerMirror, state: BrokerState, key: tuple[str, int], mirror: ReplicaMirror
) -> bool:
    """Whether a replica that its broker lacks is in a directory that has failed, and may come back with it.

    P-34: a directory takes no replica offline but its own.
    """
    replica = mirror.replica
    counts_as_offline = replica is not None and state.offline.get(key) == replica.topic_id
    if of(mirror) in state.failed_directories and (counts_as_offline or not state.published):
        if not mirror.offline:
            ghost = known.ghost_held(broker, *key)
            replicas.last_cut(known, ghost, mirror)
            if ghost is not None and replica is not None:
                _last_commit(known, ghost, mirror, replica)
            mirror.offline, mirror.role = True, Role.NONE
        return True
    ghost = known.ghost_held(broker, *key)
    if counts_as_offline and ghost is not None and mirror.incarnation == broker.incarnation:
        known.fail(
            ghost,
            "P-34",
            f"broker {broker.broker_id} holds its replica to be offline, and its log directory {of(mirror)} works; the "
            f"directories {sorted(state.failed_directories)} have failed",
        )
    return False


def _last_commit(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, replica: Replica) -> None:
    """Take up what a leader committed, and maybe acknowledged, earlier in the step in which its directory failed."""
    if mirror.role is not Role.LEADER or replica.leader_epoch != mirror.leader_epoch:
        return
    before, new = mirror.high_watermark, replica.high_watermark
    if new > before:
        if replica.log.end_offset > len(mirror.entries):
            replicas.log_changed(known, ghost, mirror, replica)
        mirror.high_watermark = new
        committed.high_watermark_of_leader(known, ghost, mirror, before, new)


def is_another_log(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, replica: Replica) -> bool:
    """Whether a replica that appears is not the one that went offline, but a new one in another directory.

    P-34: nobody may count on the one that is offline then.
    """
    if not mirror.offline or directory_of(replica.log.directory) == of(mirror):
        return False
    state = ghost.state
    if state is not None and mirror.holder in state.isr + state.elr + state.last_known_elr:
        known.fail(
            ghost,
            "P-34",
            f"broker {mirror.holder} has created a replica in {replica.log.directory}, and its log with the end "
            f"{len(mirror.entries)} is in directory {of(mirror)}, which has failed; ISR {list(state.isr)}, ELR "
            f"{list(state.elr)}, last known ELR {list(state.last_known_elr)}",
        )
    return True


def is_left_behind(broker: BrokerMirror, mirror: ReplicaMirror, replica: Replica) -> bool:
    """Whether a process has opened an older log of a replica, since the directory of the present one failed by then.

    That older log is what was left in a directory that had failed itself when the present one was created (RT-8). For
    the replica this is the loss of its disk, and it comes with an unclean start: no marker was to be read there.
    """
    index = of(mirror)
    return (
        mirror.incarnation != broker.incarnation
        and index in broker.failed_directories
        and directory_of(replica.log.directory) != index
    )


def counts(known: Knowledge, state: PartitionState, member: int) -> bool:
    """Whether a replica leads or is in the ISR; before KIP-966 the last member stays there, whatever becomes of it."""
    stays = known.generation in _WITHOUT_ELR and state.isr == (member,)
    return member == state.leader or (member in state.isr and not stays)


def check_recorded(known: Knowledge, ghost: Ghost) -> None:
    """P-33: a replica that is recorded as offline is nothing that a leader could be elected from."""
    state = ghost.state
    if state is None:
        return
    for member in state.offline:
        if counts(known, state, member) or member in state.elr:
            known.fail(
                ghost,
                "P-33",
                f"the replica of broker {member} is recorded as offline; leader {state.leader}, ISR {list(state.isr)}, "
                f"ELR {list(state.elr)}, partition epoch {state.partition_epoch}",
            )
    if len(set(state.offline)) < len(state.offline):
        known.fail(ghost, "P-33", f"the replicas {list(state.offline)} are recorded as offline, some of them twice")


def clean_epoch(machine: SimulatedMachine) -> int:
    """BL-9: the broker epoch of which all directories say that it stopped cleanly; -1 if one does not."""
    count = len(machine.settings.log_dirs)
    epochs = {checkpoints.read_clean_shutdown(machine.disk, index, count) for index in range(count)}
    epoch = epochs.pop()
    return epoch if epoch is not None and not epochs else -1


def closed(broker: BrokerMirror, machine: SimulatedMachine) -> None:
    """P-38 when a broker has ended cleanly: the marker names the epoch in which it was registered, if it was (BL-8)."""
    if broker.failed_directories or broker.broker_epoch < 0:
        return
    found = clean_epoch(machine)
    if found != broker.broker_epoch:
        raise Violation(
            "P-38",
            f"broker {broker.broker_id} has stopped cleanly in epoch {broker.broker_epoch}; its directories say "
            f"{'nothing of it' if found < 0 else found}",
        )


def opened(broker: BrokerMirror, machine: SimulatedMachine) -> None:
    """P-38 when a broker has started: no directory that works has a marker any more (BL-9)."""
    disk = machine.disk
    if broker.failed_directories or disk.failing or disk.failing_directories:
        return
    found = clean_epoch(machine)
    if found >= 0:
        raise Violation("P-38", f"broker {broker.broker_id} runs, and its directories say that it has stopped: {found}")


def check_owner(machine: SimulatedMachine) -> None:
    """P-65 when a node has started: each of its log directories that works says of which cluster it is (KIP-78)."""
    settings, disk = machine.settings, machine.disk
    for index in range(len(settings.log_dirs)):
        if disk.failing or index in disk.refused or index in disk.failing_directories:
            continue
        found = checkpoints.read_cluster_id(disk, index)
        if found != settings.cluster_id:
            raise Violation(
                "P-65",
                f"node {settings.node_id} of cluster {settings.cluster_id!r} runs, and its log directory {index} is of "
                f"{'no cluster' if found is None else repr(found)}",
            )


def check_placed(known: Knowledge, broker: BrokerMirror, state: BrokerState) -> None:
    """P-60 after a step in which a broker may have created logs: each is where the fewest were.

    It deletes logs first that others replace, and those that it is not assigned any more last: whether these were there
    when it counted is not known, so a step in which any went is not judged.
    """
    new = [key for key, replica in state.replicas.items() if _is_new(broker, key, replica)]
    if not new or any(key not in state.replicas for key in broker.mirrors) or state.failed_directories:
        return
    if any(key in broker.mirrors for key in new):
        return
    logs = Counter(directory_of(state.replicas[key].log.directory) for key in broker.mirrors)
    for key in new:
        replica = state.replicas[key]
        index = directory_of(replica.log.directory)
        fewest = min(logs[other] for other in range(len(state.settings.log_dirs)))
        if logs[index] > fewest:
            known.fail(
                known.ghost(replica.topic, replica.topic_id, replica.partition),
                "P-60",
                f"broker {broker.broker_id} has created a log in directory {index}, which had {logs[index]}; another "
                f"had {fewest}",
            )
        logs[index] += 1


def _is_new(broker: BrokerMirror, key: tuple[str, int], replica: Replica) -> bool:
    mirror = broker.mirrors.get(key)
    return mirror is None or mirror.replica is not replica
