"""Follows the controller's log and updates the replicas to match the metadata image (§4, §11)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from broker.core.broker_node import compaction, directories, isr_changes, lifecycle, replication, storage
from broker.core.broker_node.groups.records import OFFSETS_TOPIC
from broker.core.broker_node.requests import fetching, producing
from broker.core.broker_node.state import BrokerState, TopicConfigured
from broker.core.configuration.in_force import in_force, layers
from broker.core.log.log import LogConfig
from broker.core.log.validation import AppendError, CorruptBatch
from broker.core.messages import (
    NO_LEADER,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import Image, TopicImage
from broker.core.metadata.records import METADATA_TOPIC, PartitionState
from broker.core.ports.files import StorageError
from broker.core.ports.marks import sometimes
from broker.core.quorum import observer, snapshots
from broker.core.replica import follower, leader
from broker.core.replica.intake import intake_of
from broker.core.replica.state import Replica, Role

LEADS = sometimes("role: leads (RT-1)")
LEADS_AGAIN = sometimes("role: leads a new epoch without having followed between (RT-3)")
ASSIGNMENT_ADOPTED = sometimes("role: leads on, by a newer partition state (RT-2)")
FOLLOWS = sometimes("role: a follower follows another leader or epoch (RT-5)")
DEPOSED = sometimes("role: a leader becomes a follower (RT-5)")
LEADERLESS = sometimes("role: there is no leader (RT-7)")
DEPOSED_TO_NONE = sometimes("role: a leader learns that there is none (RT-7)")
REMOVED = sometimes("role: removed from the replicas, the log is deleted (RT-8)")
CREATED = sometimes("role: a replica is created")
LEADS_BEHIND = sometimes("role: leads with a high watermark below the start of its epoch (HW-6)")
ISR_CHANGE_SUPERSEDED = sometimes("ISR: a pending change is superseded by metadata (ISR-5)")
ISR_CHANGE_LEARNT_EARLY = sometimes("ISR: an accepted change is learnt from metadata before the answer (MD-4)")
METADATA_SNAPSHOT = sometimes("metadata: a broker takes its image from a snapshot (QU-21)")
APPEND_REFUSED = sometimes("metadata: what the controller sent does not fit")
METADATA_SEVERAL = sometimes("metadata: several changes of a partition are seen as one (MD-2)")

FETCH = "metadata-fetch"
FETCH_SNAPSHOT = "metadata-snapshot"
CHANNEL = "metadata"
_ANY_EPOCH = 0x7FFFFFFF


def fetch(broker: BrokerState) -> None:
    """MD-1: fetch the records after those already applied, and let the leader compare the logs (QU-16)."""
    settings = broker.settings
    copy = broker.metadata
    position = copy.image.end_offset
    broker.runtime.send(
        broker.controller_id,
        FetchRequest(
            (
                FetchPartition(
                    METADATA_TOPIC, 0, position, settings.metadata_fetch_max_bytes, last_fetched_epoch=copy.epoch
                ),
            ),
            # a combined node votes under this id; what its broker has applied must not count as its voter's log
            replica_id=-1 if settings.is_controller else broker.broker_id,
            max_wait_ms=settings.metadata_fetch_wait_max_ms,
            cluster_id=settings.cluster_id,
        ),
        channel=CHANNEL,
        timeout_ms=settings.metadata_fetch_wait_max_ms + settings.request_timeout_ms,
        purpose=FETCH,
    )


def _ask_for_snapshot(broker: BrokerState, snapshot_id: tuple[int, int], data: bytes) -> None:
    """QU-21: the controller's log begins after our position; fetch a snapshot."""
    broker.snapshot_data = data
    broker.runtime.send(
        broker.controller_id,
        FetchSnapshotRequest(
            broker.settings.cluster_id,
            broker.broker_id,
            broker.settings.metadata_snapshot_fetch_max_bytes,
            -1,
            snapshot_id,
            len(data),
        ),
        channel=CHANNEL,
        timeout_ms=broker.settings.request_timeout_ms,
        purpose=FETCH_SNAPSHOT,
    )


def snapshot_arrived(broker: BrokerState, response: FetchSnapshotResponse | None) -> None:
    """QU-21: handle a chunk of the snapshot; the last one replaces the image."""
    if response is None or response.error_code != ErrorCode.NONE or response.position != len(broker.snapshot_data):
        broker.runtime.set_timer((FETCH,), broker.settings.metadata_retry_backoff_ms)
        return
    data = broker.snapshot_data + response.data
    if len(data) < response.size:
        _ask_for_snapshot(broker, response.snapshot_id, data)
        return
    broker.snapshot_data = b""
    image = snapshots.decode(data, response.snapshot_id)
    if isinstance(image, Image):
        broker.runtime.mark(METADATA_SNAPSHOT)
        observer.install(broker.metadata, response.snapshot_id, image)
        with _giving_up_copy(broker):
            observer.store_snapshot(broker.metadata, response.snapshot_id, data)
        broker.image = image
        publish_if_caught_up(broker)
    fetch(broker)


def fetched(broker: BrokerState, asked: int, response: FetchResponse | None) -> None:
    """MD-1, MD-2: apply all received committed records, then publish once. `asked`: the controller that was asked.

    MD-7: a start has read the copy on the disk, but nothing uses it before the leader has found it to be a part of its
    log.
    """
    part = response.partitions[0] if response is not None and response.partitions else None
    copy = broker.metadata
    if part is None or part.error_code != ErrorCode.NONE:
        confirmed = broker.image is copy.image  # then it is the controller that is behind
        if part is not None and part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and not confirmed:
            _begin_anew(broker)
        lifecycle.try_another_controller(broker, asked, part.current_leader if part is not None else None)
        broker.runtime.set_timer((FETCH,), broker.settings.metadata_retry_backoff_ms)
        return
    if part.snapshot_id is not None:
        _ask_for_snapshot(broker, part.snapshot_id, b"")
        return
    if part.diverging_epoch is not None:
        _begin_anew(broker)
        fetch(broker)
        return
    try:
        has_news = _apply_records(broker, part)
    except AppendError as error:
        broker.runtime.mark(APPEND_REFUSED)
        broker.runtime.log("error", f"metadata log: {error}")
        if not isinstance(error, CorruptBatch):
            _begin_anew(broker)
        broker.runtime.set_timer((FETCH,), broker.settings.metadata_retry_backoff_ms)
        return
    if has_news or broker.image is not copy.image:
        broker.image = copy.image
        publish_if_caught_up(broker)
    fetch(broker)


def _begin_anew(broker: BrokerState) -> None:
    """QU-17: the quorum's log is another one than the copy's: fetch all of it. Its image counts until the new one has
    begun.
    """
    end = broker.metadata.image.end_offset
    with _giving_up_copy(broker):
        observer.drop(broker.metadata, broker.runtime, f"up to offset {end} is not part of the quorum's log")


def _apply_records(broker: BrokerState, part: FetchedPartition) -> bool:
    """Apply the records and write them to the copy; returns whether there were any."""
    highest_epoch = part.current_leader[1] if part.current_leader is not None else _ANY_EPOCH
    if not observer.apply(broker.metadata, part.records, highest_epoch):
        return False
    with _giving_up_copy(broker):
        observer.store(broker.metadata, part.records, broker.settings.metadata_snapshot_records)
    return True


@contextmanager
def _giving_up_copy(broker: BrokerState) -> Iterator[None]:
    """Write the copy. If the disk fails, the broker goes on with what it has in memory, or ends (TR-6)."""
    try:
        yield
    except StorageError as error:
        broker.metadata.stored = None
        if not broker.rules.storage.goes_on_after_error():
            directories.fail(broker, error)


def publish_if_caught_up(broker: BrokerState) -> None:
    """BL-5: publish roles only from an image that contains this broker's current registration."""
    if 0 <= broker.broker_epoch < broker.image.end_offset:
        publish(broker)


def publish(broker: BrokerState) -> None:
    """Update every replica to match the image, whatever happened in between (level-triggered)."""
    image = broker.image
    _adopt_settings(broker)
    before, broker.configured = broker.configured, {}
    of_most = _configured(broker, before, "", {})
    _create_missing(broker)
    for topic in image.topics.values():
        min_insync_replicas = image.min_insync_replicas(topic.name, broker.settings.min_insync_replicas)
        is_special = topic.configs or topic.name == OFFSETS_TOPIC
        configured = _configured(broker, before, topic.name, topic.configs) if is_special else of_most
        for number, state in topic.partitions.items():
            replica = broker.replicas.get((topic.name, number))
            if replica is None or broker.broker_id not in state.replicas:
                continue
            replica.min_insync_replicas = min_insync_replicas
            replica.intake = configured.intake
            replica.elr = state.elr
            if broker.rules.metadata.is_news(state.partition_epoch, replica.partition_epoch):
                with directories.guarded(broker):
                    _apply(broker, replica, state)
            elif broker.rules.high_watermark.moves_with_isr():
                isr_changes.high_watermark_may_move(broker, replica)  # by another min ISR, or by an ISR already known
            if replica.log.config != configured.log:
                _reconfigure(broker, replica, configured.log)  # by its role in this image, whose min ISR it has already
    _remove(broker, [replica for replica in broker.replicas.values() if not _assigned(image, replica)])
    for topic_name, number in [key for key, topic_id in broker.offline.items() if not _keeps(broker, key, topic_id)]:
        del broker.offline[topic_name, number]
    broker.reported = ()  # what these metadata do not show is reported again
    directories.report(broker)
    compaction.plan(broker)
    broker.published = True
    replication.fetch_from_all(broker)


def _configured(
    broker: BrokerState, before: Mapping[str, TopicConfigured], topic: str, configs: Mapping[str, str]
) -> TopicConfigured:
    """What a topic's own settings and the broker's say of its replicas; as `before`, if both are the same."""
    found, settings = before.get(topic), broker.settings
    if found is None or found.settings is not settings or found.configs != configs:
        log_config = storage.log_config(settings, broker.rules, topic, configs)
        found = TopicConfigured(settings, dict(configs), log_config, intake_of(settings, configs))
    broker.configured[topic] = found
    return found


def _adopt_settings(broker: BrokerState) -> None:
    """Put the settings that the metadata has for this broker and for all into force."""
    of_all, own = layers(broker.image, broker.broker_id)
    if (of_all, own) == broker.adopted:
        return
    broker.adopted = dict(of_all), dict(own)
    before = broker.settings
    broker.settings = in_force(broker.file, of_all, own)
    if broker.settings.log_flush_interval_ms != before.log_flush_interval_ms:
        storage.plan_flush(broker)


def _reconfigure(broker: BrokerState, replica: Replica, config: LogConfig) -> None:
    """MD-2: give a log other settings. How much must be synced before it counts may be one of them.

    Called when the partition's state is taken over from the same metadata: the new min ISR, with the ISR from before or
    by a leader that was deposed since, would let the high watermark pass.
    """
    replica.log.config = config
    storage.appended(broker, replica)
    if replica.role is Role.LEADER:
        isr_changes.high_watermark_may_move(broker, replica)
        broker.touch(replica)


def _create_missing(broker: BrokerState) -> None:
    """Create the replicas that the image assigns to this broker and that it lacks, all at once."""
    created = directories.claim_again(broker)
    _remove(broker, [replica for replica in broker.replicas.values() if _is_replaced(broker.image, replica)])
    for topic in broker.image.topics.values():
        for number, state in topic.partitions.items():
            replica = broker.replicas.get((topic.name, number))
            if (
                replica is not None
                or broker.broker_id not in state.replicas
                or _is_offline(broker, topic, number, state)
            ):
                continue
            broker.runtime.mark(CREATED)
            replica = storage.create_replica(broker, topic.name, number, topic.topic_id)
            if replica is not None:
                created.append(replica)
    storage.record_topic_ids(broker, [replica for replica in created if broker.replicas.get(replica.key) is replica])


def _is_offline(broker: BrokerState, topic: TopicImage, number: int, state: PartitionState) -> bool:
    """KIP-112: the replica's log directory failed; a new replica in another one would lack its records."""
    key = (topic.name, number)
    if key not in broker.replicas and key not in broker.offline and directories.may_hold(broker, state):
        broker.offline[key] = topic.topic_id
    return broker.offline.get(key) == topic.topic_id


def _keeps(broker: BrokerState, key: tuple[str, int], topic_id: str) -> bool:
    """Whether a replica that is offline is still assigned to this broker."""
    topic = broker.image.topics.get(key[0])
    state = broker.image.partition(*key)
    same = topic is not None and topic.topic_id == topic_id
    return same and state is not None and broker.broker_id in state.replicas


def _is_replaced(image: Image, replica: Replica) -> bool:
    """Whether the topic was deleted, and another has its name."""
    topic = image.topics.get(replica.topic)
    return topic is not None and topic.topic_id != replica.topic_id


def _assigned(image: Image, replica: Replica) -> bool:
    state = image.partition(replica.topic, replica.partition)
    return state is not None and replica.broker_id in state.replicas


def _apply(broker: BrokerState, replica: Replica, state: PartitionState) -> None:
    """RT-1 … RT-7, MD-3: change the role if leader or epoch changed; ISR-5: drop a superseded pending change."""
    now_ms = broker.runtime.now_ms
    new_epoch = state.leader_epoch > replica.leader_epoch
    new_leader = state.leader != replica.leader
    if replica.role is Role.LEADER and not (new_leader or new_epoch or broker.rules.metadata.refreshes_leader()):
        return
    if replica.pending_isr is not None:
        is_ours = set(replica.pending_isr.isr) == set(state.isr) and not (new_leader or new_epoch)
        broker.runtime.mark(ISR_CHANGE_LEARNT_EARLY if is_ours else ISR_CHANGE_SUPERSEDED)
    if state.partition_epoch > replica.partition_epoch + 1 and replica.partition_epoch >= 0:
        broker.runtime.mark(METADATA_SEVERAL)
    was_leader = replica.role is Role.LEADER
    replica.replicas = state.replicas
    replica.isr = state.isr
    replica.partition_epoch = state.partition_epoch
    replica.leader_epoch = state.leader_epoch
    replica.recovery_state = state.recovery_state
    replica.leader = state.leader
    replica.pending_isr = None
    if state.leader == broker.broker_id:
        if replica.role is not Role.LEADER:
            leader.become_leader(replica, broker.rules, now_ms)
            broker.runtime.mark(LEADS)
            if replica.high_watermark < replica.leader_epoch_start:
                broker.runtime.mark(LEADS_BEHIND)
            _log_role(broker, replica, "leads")
        elif new_epoch:
            leader.renew_leadership(replica, broker.rules, now_ms)
            broker.runtime.mark(LEADS_AGAIN)
            _log_role(broker, replica, "leads again")
        else:
            broker.runtime.mark(ASSIGNMENT_ADOPTED)
            leader.adopt_assignment(replica, now_ms)
        isr_changes.changed(broker, replica)
        isr_changes.finish_recovery(broker, replica)
        broker.touch(replica)
        return
    if replica.role is Role.LEADER or new_leader or new_epoch:
        producing.fail_all(broker, replica, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        broker.touch(replica)
        if state.leader == NO_LEADER:
            replica.role = Role.NONE
            replica.remotes = {}
            broker.runtime.mark(DEPOSED_TO_NONE if was_leader else LEADERLESS)
            _log_role(broker, replica, "has no leader")
            return
        broker.runtime.mark(DEPOSED if was_leader else FOLLOWS)
        cut_to = follower.become_follower(replica, broker.rules, new_leader=new_leader)
        if cut_to is not None:
            storage.appended(broker, replica)
        _log_role(broker, replica, f"follows {state.leader}" + ("" if cut_to is None else f", cut to {cut_to}"))


def _log_role(broker: BrokerState, replica: Replica, what: str) -> None:
    broker.runtime.log(
        "info",
        f"{replica.topic}-{replica.partition}: {what} in epoch {replica.leader_epoch}, "
        f"log end {replica.log.end_offset}, high watermark {replica.high_watermark}, ISR {list(replica.isr)}",
    )


def _remove(broker: BrokerState, replicas: Sequence[Replica]) -> None:
    """RT-8: no longer assigned; answer what waits, and delete the logs too, so that they cannot come back."""
    for replica in replicas:
        producing.fail_all(broker, replica, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        broker.runtime.mark(REMOVED)
        broker.runtime.log("info", f"{replica.topic}-{replica.partition}: removed")
        del broker.replicas[replica.key]
        fetching.wake(broker, replica)
        broker.touch(replica)
    storage.delete_logs(broker, replicas)
