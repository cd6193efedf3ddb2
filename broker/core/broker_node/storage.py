"""Manages the logs on the broker's disk: opening, flushing, checkpoints, the clean stop (§17, BL-8, BL-9)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from broker.core.broker_node import directories
from broker.core.broker_node.state import BrokerState
from broker.core.configuration import cleanup, topics
from broker.core.configuration.settings import Settings
from broker.core.log import checkpoints
from broker.core.log.log import DELETED_SUFFIX, Log, LogConfig
from broker.core.log.segments.segment import LOG_SUFFIX, CorruptLog
from broker.core.metadata.records import METADATA_DIRECTORY
from broker.core.ports.events import Exit, Flush
from broker.core.ports.files import Files, StorageError, directory_of, name_in
from broker.core.ports.marks import sometimes
from broker.core.quorum import observer
from broker.core.replica.state import Replica, Role
from broker.core.rules import Rules

OPENED_CLEAN = sometimes("opening: the clean-shutdown marker is there (BL-9)")
OPENED_UNCLEAN = sometimes("opening: no clean-shutdown marker, the logs are recovered (ST-6)")
TAIL_CUT = sometimes("opening: recovery cut a torn tail (ST-6)")
CUT_BELOW_HIGH_WATERMARK = sometimes("opening: the log ends below the high watermark of the checkpoint (HW-7)")
CUT_BELOW_RECOVERY_POINT = sometimes("opening: the log ends below the recovery point of the checkpoint")
ABOVE_A_CUT = sometimes("opening: the high watermark is above a cut that may have been undone (HW-7)")
INDEXES_REBUILT = sometimes("opening: the indexes of a segment that was rolled are rebuilt (ST-6)")
NO_CHECKPOINT = sometimes("opening: a checkpoint is missing or cannot be used (ST-7)")
REOPENED_ABOVE_ZERO = sometimes("opening: the log begins above 0")
ROLLED = sometimes("storage: a segment that was rolled is flushed")
STARTS_LOWER = sometimes("storage: a log restarts below its start, and the checkpoint says so at once (TR-4)")
ENDS_LOWER = sometimes("storage: a log is cut below its high watermark, and the checkpoint says so at once (HW-7)")
DISK_FAILED = sometimes("storage: the log directory failed, the broker ends (TR-6)")
DELETION_ENDED = sometimes("opening: what a kill left of a log that was deleted is deleted (RT-8)")
CREATION_UNDONE = sometimes("opening: what a crash left of a log that was being created is deleted (RT-8)")
SUPERSEDED = sometimes("opening: a log is deleted, another directory has a later one of its partition (RT-8)")
CLOSED_CLEANLY = sometimes("storage: all is synced and the marker is written (BL-8)")

CHECKPOINT = "checkpoint"
FLUSH_INTERVAL = "flush-interval"
PARTITION_METADATA = "partition.metadata"


_OF_NO_TOPIC: Mapping[str, str] = MappingProxyType({})


def log_config(
    settings: Settings, rules: Rules, topic: str = "", configs: Mapping[str, str] = _OF_NO_TOPIC
) -> LogConfig:
    """The log configuration, from the settings, a topic's own `configs` and the rules."""
    return LogConfig(
        segment_bytes=topics.SEGMENT_BYTES.value(settings, configs),
        segment_ms=cleanup.segment_ms(settings, topic, configs),
        index_interval_bytes=topics.INDEX_INTERVAL.value(settings, configs),
        flush_messages=topics.FLUSH_MESSAGES.value(settings, configs),
        max_batch_bytes=topics.MAX_MESSAGE_BYTES.value(settings, configs),
        rules=rules.storage,
        compaction=cleanup.compaction(settings, topic, configs),
    )


def take_marker(broker: BrokerState) -> None:
    """BL-9: epoch of the incarnation that stopped cleanly, if all directories say so; the marker is deleted before any
    log is opened.
    """
    count = len(broker.settings.log_dirs)
    epochs = []
    for directory in directories.online(broker):
        with directories.guarded(broker):
            epochs.append(checkpoints.read_clean_shutdown(broker.files, directory, count))
            checkpoints.delete_clean_shutdown(broker.files, directory)
    if len(epochs) == count and len(set(epochs)) == 1 and epochs[0] is not None:
        broker.previous_broker_epoch = epochs[0]


def open_metadata(broker: BrokerState) -> None:
    """MD-7: read what is on the disk of the metadata log."""
    if directory_of(METADATA_DIRECTORY) in broker.failed_directories:
        return
    with directories.guarded(broker):
        opened = observer.open_snapshot if broker.settings.is_controller else observer.open_copy
        broker.metadata = opened(broker.files, broker.runtime)


def open_replicas(broker: BrokerState) -> None:
    """ST-6, HW-7: open all logs; recover them if the last stop was not clean.

    The checkpoints are written anew at once where a high watermark had to be lowered, or a log is gone: what is fetched
    anew before the next regular checkpoint would otherwise pass for committed, or for synced, at the next start.
    """
    broker.runtime.mark(OPENED_CLEAN if broker.previous_broker_epoch >= 0 else OPENED_UNCLEAN)
    for directory in directories.online(broker):
        with directories.guarded(broker):
            _open_directory(broker, directory)
    if broker.failed_directories:
        broker.previous_broker_epoch = -1  # directories that the clean stop covered are missing
        broker.has_unread_directories = True
        broker.offline.clear()  # other contents of failed directories are unknown: `directories.may_hold`
        broker.lost.clear()


def _open_directory(broker: BrokerState, index: int) -> None:
    recovery_points = _offsets(broker, index, checkpoints.RECOVERY_POINT)
    log_starts = _offsets(broker, index, checkpoints.LOG_START)
    high_watermarks = _offsets(broker, index, checkpoints.HIGH_WATERMARK)
    topic_ids = checkpoints.read_topic_ids(broker.files, name_in(index, checkpoints.TOPIC_IDS))
    claims = checkpoints.read_claims(broker.files, name_in(index, checkpoints.TOPIC_IDS))
    checkpointed = {*recovery_points, *log_starts, *high_watermarks}
    lowered = False
    for directory in broker.files.list(name_in(index, "").rstrip("/")):
        if directory.endswith(DELETED_SUFFIX):
            broker.runtime.mark(DELETION_ENDED)
            broker.files.delete(name_in(index, directory))
            continue
        topic, dash, number = directory.rpartition("-")
        if not dash or not number.isdigit():
            continue
        key = (topic, int(number))
        topic_id = _read_topic_id(broker.files, name_in(index, directory)) or topic_ids.get(directory)
        if topic_id is None:
            _undo_creation(broker, name_in(index, directory))
            continue
        if key in broker.replicas and _is_superseded(broker, key, index, claims.get(directory)):
            broker.files.delete(name_in(index, directory))
            continue
        log = Log.open(
            broker.files,
            name_in(index, directory),
            log_config(broker.settings, broker.rules),
            clean=broker.previous_broker_epoch >= 0,
            recovery_point=recovery_points.get(key, 0),
            start_offset=log_starts.get(key, 0),
        )
        if log.end_offset < high_watermarks.get(key, 0):
            broker.runtime.mark(CUT_BELOW_HIGH_WATERMARK)
        if log.end_offset < recovery_points.get(key, 0):
            broker.runtime.mark(CUT_BELOW_RECOVERY_POINT)
        if log.start_offset:
            broker.runtime.mark(REOPENED_ABOVE_ZERO)
        if log.recovery.indexed_segments:
            broker.runtime.mark(INDEXES_REBUILT)
        if log.recovery.truncated_bytes:
            broker.runtime.mark(TAIL_CUT)
            broker.runtime.log(
                "warning", f"{directory}: {log.recovery.truncated_bytes} bytes cut: {log.recovery.reason}"
            )
        end = log.certain_end if broker.rules.storage.doubts_what_was_cut() else log.end_offset
        high_watermark = broker.rules.storage.initial_high_watermark(
            high_watermarks.get(key), log.start_offset, max(log.start_offset, end)
        )
        if high_watermark < min(high_watermarks.get(key, 0), log.end_offset):
            broker.runtime.mark(ABOVE_A_CUT)
        lowered = lowered or high_watermark < high_watermarks.get(key, 0)
        broker.replicas[key] = Replica(
            topic,
            key[1],
            topic_id,
            broker.broker_id,
            log,
            high_watermark,
            claim=claims.get(directory),
        )
    here = {key for key, replica in broker.replicas.items() if directories.of(replica) == index}
    if lowered or not checkpointed <= here:
        _checkpoint_directory(broker, index)


def _undo_creation(broker: BrokerState, directory: str) -> None:
    """RT-8: delete a directory of which nothing says of which topic it is, if a creation has left it.

    Nobody else would delete it, if the topic is deleted before its broker starts again.
    """
    if _is_new(broker, directory):
        broker.runtime.mark(CREATION_UNDONE)
        broker.files.delete(directory)


def _is_new(broker: BrokerState, directory: str) -> bool:
    """Whether there is nothing in a directory but what `create_replica` puts there: no record."""
    names = set(broker.files.list(directory))
    log_file = f"{0:020d}{LOG_SUFFIX}"
    return names <= {PARTITION_METADATA, log_file} and not broker.files.size(f"{directory}/{log_file}")


def _is_superseded(broker: BrokerState, key: tuple[str, int], index: int, claim: checkpoints.Claim | None) -> bool:
    """RT-8: whether the log of a partition that another directory has too is the older one; else delete the other.

    The partition was given up while the directory of the older one had failed, and came back: with the topic id of
    another topic, or as a replica that starts empty. One without a claim and without a record was being created when
    the broker ended: it is deleted. Raises `CorruptLog` if nothing says which is older: somebody has copied it.
    """
    other = broker.replicas[key]
    path, directory = broker.settings.log_dirs[directories.of(other)], f"{key[0]}-{key[1]}"
    if claim is None and _is_new(broker, name_in(index, directory)):
        broker.runtime.mark(CREATION_UNDONE)
        return True
    if other.claim is None and _is_new(broker, other.log.directory):
        broker.runtime.mark(CREATION_UNDONE)
        del broker.replicas[key]
        delete_logs(broker, [other])
        return False
    if claim is None or other.claim is None or claim == other.claim:
        raise CorruptLog(
            f"expected {directory} in one log directory, found it in {path} too: remove one of the two",
            name_in(index, directory),
        )
    is_older = claim < other.claim
    broker.runtime.mark(SUPERSEDED)
    broker.runtime.log(
        "warning",
        f"{directory}: its log in {broker.settings.log_dirs[index] if is_older else path} is deleted, it is older than "
        f"the one in {path if is_older else broker.settings.log_dirs[index]}",
    )
    if not is_older:
        del broker.replicas[key]
        delete_logs(broker, [other])
    return is_older


def create_replica(broker: BrokerState, topic: str, partition: int, topic_id: str) -> Replica | None:
    """Create an empty replica with its directory; None if the chosen log directory fails.

    None of its files is synced. If they are lost, nothing is: the metadata have it created again. Before there is a
    record, `record_topic_ids` must make durable which topic it belongs to. A log that is in the directory already
    was not opened, because nothing says which topic it is of; it is deleted (KIP-516).
    """
    directory = name_in(directories.choose(broker), f"{topic}-{partition}")
    try:
        if broker.files.list(directory):
            broker.files.delete(directory)  # nothing says of which topic: it may be an earlier one of this name
        broker.files.append(f"{directory}/{PARTITION_METADATA}", f"version: 0\ntopic_id: {topic_id}\n".encode())
        log = Log.open(broker.files, directory, log_config(broker.settings, broker.rules), clean=False)
    except StorageError as error:
        directories.fail(broker, error)
        broker.offline[topic, partition] = topic_id
        return None
    replica = Replica(
        topic,
        partition,
        topic_id,
        broker.broker_id,
        log,
        claim=directories.claim(broker),
    )
    broker.replicas[replica.key] = replica
    return replica


def record_topic_ids(broker: BrokerState, created: Collection[Replica]) -> None:
    """Make durable which topics new replicas belong to: with one file for all those of a log directory.

    It counts where a power failure has left a replica's records without its own file that says so.
    """
    for index in sorted({directories.of(replica) for replica in created}):
        here = {f"{one.topic}-{one.partition}": one for one in broker.replicas.values() if directories.of(one) == index}
        with directories.guarded(broker):
            checkpoints.write_topic_ids(
                broker.files,
                name_in(index, checkpoints.TOPIC_IDS),
                {directory: replica.topic_id for directory, replica in here.items()},
                {directory: replica.claim for directory, replica in here.items() if replica.claim is not None},
            )


def _read_topic_id(files: Files, directory: str) -> str | None:
    """The topic id of a replica's own file; None if it is missing or torn."""
    name = f"{directory}/{PARTITION_METADATA}"
    version, _, rest = files.read(name, 0, files.size(name)).decode(errors="replace").partition("\ntopic_id: ")
    topic_id, end, _ = rest.partition("\n")
    return topic_id if version == "version: 0" and end else None


def _offsets(broker: BrokerState, index: int, name: str) -> dict[tuple[str, int], int]:
    """ST-7: an unusable checkpoint counts as none."""
    offsets = checkpoints.read_checkpoint(broker.files, name_in(index, name))
    if isinstance(offsets, checkpoints.Unusable):
        broker.runtime.mark(NO_CHECKPOINT)
        return {}
    return offsets


def appended(broker: BrokerState, replica: Replica) -> None:
    """Flush segments that were rolled, and, if configured, the rest after so many records or so much time.

    After a cut, too: one within a batch rewrites what is left of it.
    """
    log = replica.log
    due_to = log.flush_due_to
    if due_to > log.flushed_offset and replica.flushing_to is None:
        if due_to < log.end_offset:
            broker.runtime.mark(ROLLED)
        flush(broker, replica, due_to)
    if due_to < log.end_offset and broker.settings.log_flush_interval_ms and not broker.flush_is_planned:
        broker.flush_is_planned = log.flushed_offset < log.end_offset
        if broker.flush_is_planned:
            broker.runtime.set_timer((FLUSH_INTERVAL,), broker.settings.log_flush_interval_ms)


def flush(broker: BrokerState, replica: Replica, upto: int | None = None) -> None:
    """Request an fsync of what is unflushed below `upto`, by default all; one at a time for a replica."""
    log = replica.log
    upto = log.end_offset if upto is None else upto
    if replica.flushing_to is None and log.flushed_offset < upto:
        replica.flushing_to = (upto, log.truncations)
        broker.runtime.effects.append(Flush(replica.key, log.unflushed_files(upto)))


def flushed(broker: BrokerState, replica: Replica) -> None:
    """The bytes are on the disk; start the next flush if one is due."""
    if replica.flushing_to is not None:
        replica.log.mark_flushed(*replica.flushing_to)
        replica.flushing_to = None
    appended(broker, replica)


def plan_flush(broker: BrokerState) -> None:
    """Another `log.flush.interval.ms` is in force: count it from now on."""
    broker.flush_is_planned = False
    broker.runtime.cancel_timer((FLUSH_INTERVAL,))
    for replica in broker.replicas.values():
        appended(broker, replica)


def flush_all(broker: BrokerState) -> None:
    """The timer of `log.flush.interval.ms` after an append."""
    broker.flush_is_planned = False
    for replica in broker.replicas.values():
        flush(broker, replica)


def checkpoint(broker: BrokerState) -> None:
    """HW-7: periodically write high watermarks, recovery points and log starts of each directory."""
    for index in directories.online(broker):
        with directories.guarded(broker):
            _checkpoint_directory(broker, index)


def _checkpoint_directory(broker: BrokerState, index: int) -> None:
    replicas = {key: replica for key, replica in broker.replicas.items() if directories.of(replica) == index}
    _checkpoint_high_watermarks(broker, index, replicas)
    checkpoints.write_checkpoint(
        broker.files,
        name_in(index, checkpoints.RECOVERY_POINT),
        {key: replica.log.flushed_offset for key, replica in replicas.items()},
    )
    _checkpoint_log_starts(broker, index, replicas)


def _checkpoint_log_starts(broker: BrokerState, index: int, replicas: Mapping[tuple[str, int], Replica]) -> None:
    checkpoints.write_checkpoint(
        broker.files,
        name_in(index, checkpoints.LOG_START),
        {key: replica.log.start_offset for key, replica in replicas.items()},
    )


def _checkpoint_high_watermarks(broker: BrokerState, index: int, replicas: Mapping[tuple[str, int], Replica]) -> None:
    checkpoints.write_checkpoint(
        broker.files,
        name_in(index, checkpoints.HIGH_WATERMARK),
        {
            key: replica.high_watermark
            for key, replica in replicas.items()
            if broker.rules.storage.checkpoints_high_watermark(replica.role is Role.LEADER)
        },
    )


def checkpoint_lower_bounds(broker: BrokerState, replica: Replica, log_start: int, high_watermark: int) -> None:
    """TR-4, HW-7: what a log had before it was cut must not stay in the checkpoints if the log ends below it now.

    Otherwise the next process would treat records appended before the next checkpoint as deleted, and drop them, or as
    committed, although others were.
    """
    ends_lower, starts_lower = replica.log.end_offset < high_watermark, replica.log.start_offset < log_start
    if not ends_lower and not starts_lower:
        return
    index = directories.of(replica)
    same_directory = {key: one for key, one in broker.replicas.items() if directories.of(one) == index}
    if ends_lower:
        broker.runtime.mark(ENDS_LOWER)
        _checkpoint_high_watermarks(broker, index, same_directory)
    if starts_lower:
        broker.runtime.mark(STARTS_LOWER)
        _checkpoint_log_starts(broker, index, same_directory)


def delete_logs(broker: BrokerState, removed: Sequence[Replica]) -> None:
    """RT-8: delete logs; the checkpoints forget them first, or would be trusted for the next ones of these names."""
    for index in sorted({directories.of(replica) for replica in removed}):
        with directories.guarded(broker):
            _checkpoint_directory(broker, index)
    for replica in removed:
        with directories.guarded(broker):
            replica.log.delete()


def checkpoint_regularly(broker: BrokerState) -> None:
    """The timer of `checkpoint`."""
    checkpoint(broker)
    broker.runtime.set_timer((CHECKPOINT,), broker.settings.high_watermark_checkpoint_interval_ms)


def close_cleanly(broker: BrokerState) -> None:
    """BL-8: flush all logs, write the checkpoints, then the marker, in this order.

    There is no marker if a directory has failed, because its replicas may be lost.
    """
    for replica in list(broker.replicas.values()):
        with directories.guarded(broker):
            replica.log.close_clean()
    with directories.guarded(broker):
        observer.close(broker.metadata)
    checkpoint(broker)
    if broker.broker_epoch >= 0:
        broker.runtime.mark(CLOSED_CLEANLY)
        mark_clean_stop(broker)


def mark_clean_stop(broker: BrokerState) -> None:
    """BL-8: write the marker, in every directory."""
    if not broker.failed_directories:
        checkpoints.write_clean_shutdown(broker.files, broker.broker_epoch, len(broker.settings.log_dirs))


def failed(broker: BrokerState, error: StorageError) -> None:
    """TR-6, ST-7: the last log directory has failed; the broker stops."""
    path = broker.settings.log_dirs[directory_of(error.name)]
    broker.runtime.mark(DISK_FAILED)
    broker.runtime.log("error", f"the log directory failed: {error}")
    broker.runtime.effects.append(Exit(4, f"log directory {path} failed: {error}"))
