"""A broker's copy of the metadata log: all that it has fetched, in memory and on its disk (QU-18, QU-25).

A broker gets only what is committed, so its copy is a prefix of the log of every later leader of the quorum. It is not
only if the quorum has lost what it had committed, or if the disk gave back something else than was written; then the
leader's answer to a fetch says so, and nothing of the copy can be trusted: it is dropped and fetched anew.

Nothing of it is synced, but at a clean stop: what a power failure takes is fetched again. A copy that cannot be written
any more is given up, and the broker goes on with what it has in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from broker.core.log.log import Log, LogConfig
from broker.core.log.segments.segment import CorruptLog
from broker.core.log.validation import check_replicated
from broker.core.messages import UNKNOWN
from broker.core.metadata.image import Image
from broker.core.metadata.records import METADATA_DIRECTORY
from broker.core.ports.files import Files
from broker.core.ports.marks import sometimes
from broker.core.ports.runtime import Runtime
from broker.core.quorum import snapshots
from broker.core.records import MalformedBatch

FOUND = sometimes("metadata copy: a broker starts with what is on its disk")
FOUND_SNAPSHOT = sometimes("metadata copy: a broker of a combined node starts with its controller's snapshot")
DROPPED = sometimes("metadata copy: dropped, to be fetched anew")

_LOG_CONFIG = LogConfig(max_batch_bytes=1 << 30)


@dataclass(slots=True)
class StoredCopy:
    """The part on the disk: a log that begins where the newest snapshot ends."""

    files: Files
    runtime: Runtime
    log: Log
    snapshot_id: tuple[int, int] = (0, UNKNOWN)
    high_watermark: int = 0


@dataclass(slots=True)
class MetadataCopy:
    """What a broker has of the metadata log: the image of it, and the epoch of its last record."""

    image: Image = field(default_factory=Image)
    epoch: int = UNKNOWN
    stored: StoredCopy | None = None
    """None: nothing is kept on the disk."""


def open_copy(files: Files, runtime: Runtime) -> MetadataCopy:
    """Read the copy on the disk. One that is damaged is dropped, with a line in the log. Raises `StorageError`."""
    try:
        stored = StoredCopy(files, runtime, Log.open(files, METADATA_DIRECTORY, _LOG_CONFIG, clean=False))
        image = snapshots.replayed(stored, stored.log.end_offset)
    except (CorruptLog, MalformedBatch, LookupError, ValueError, TypeError) as error:  # whatever was made of it
        return _anew(files, runtime, f"on the disk cannot be read ({error})")
    if stored.log.end_offset < stored.snapshot_id[0]:
        stored.log.truncate_fully(stored.snapshot_id[0])  # the snapshot is durable before the log that it covers
    if image.end_offset != stored.log.end_offset:
        gap = f"has nothing between offsets {image.end_offset} and {stored.log.start_offset}"
        return _anew(files, runtime, f"on the disk {gap}")
    if stored.log.recovery.truncated_bytes:
        runtime.log("warning", f"metadata log: {stored.log.recovery.truncated_bytes} bytes cut, to be fetched anew")
    if image.end_offset:
        runtime.mark(FOUND)
        runtime.log("info", f"metadata log: {image.end_offset} offsets and {len(image.topics)} topics on the disk")
    return MetadataCopy(image, _last_epoch(stored), stored)


def open_snapshot(files: Files, runtime: Runtime) -> MetadataCopy:
    """The newest snapshot of the controller of this combined node, which keeps the log for both. It is only read."""
    for snapshot_id in reversed(snapshots.find(files, METADATA_DIRECTORY)):
        image = snapshots.read(files, METADATA_DIRECTORY, snapshot_id)
        if isinstance(image, Image):
            runtime.mark(FOUND_SNAPSHOT)
            return MetadataCopy(image, snapshot_id[1])
    return MetadataCopy()


def _anew(files: Files, runtime: Runtime, why: str) -> MetadataCopy:
    _say_dropped(runtime, why)
    files.delete(METADATA_DIRECTORY)
    return MetadataCopy(
        stored=StoredCopy(files, runtime, Log.open(files, METADATA_DIRECTORY, _LOG_CONFIG, clean=False))
    )


def _say_dropped(runtime: Runtime, why: str) -> None:
    runtime.mark(DROPPED)
    runtime.log("warning", f"metadata log: the copy {why}; it is dropped and fetched anew")


def _last_epoch(stored: StoredCopy) -> int:
    epoch = stored.log.last_epoch
    return epoch if epoch != UNKNOWN else stored.snapshot_id[1]


def drop(copy: MetadataCopy, runtime: Runtime, why: str) -> None:
    """Begin anew, in memory and on the disk. Raises `StorageError`."""
    copy.image, copy.epoch = Image(), UNKNOWN
    if copy.stored is None:
        _say_dropped(runtime, why)
    else:
        copy.stored = _anew(copy.stored.files, runtime, why).stored


def apply(copy: MetadataCopy, records: bytes, max_epoch: int) -> bool:
    """MD-1: apply committed records; returns whether there were any. `AppendError` if they do not continue the copy."""
    headers, _ = check_replicated(records, METADATA_DIRECTORY, copy.image.end_offset, copy.epoch, max_epoch)
    if not headers:
        return False
    copy.image.apply_batches(records)
    copy.epoch = headers[-1].leader_epoch
    return True


def store(copy: MetadataCopy, records: bytes, snapshot_every: int) -> None:
    """Write what was applied last, and every so many records a snapshot instead. Raises `StorageError`."""
    if copy.stored is None:
        return
    stored = copy.stored
    stored.log.append_as_follower(records, copy.epoch)
    stored.high_watermark = copy.image.end_offset
    if copy.image.end_offset - stored.snapshot_id[0] >= snapshot_every:
        snapshots.take(stored, copy.image)
        stored.log.truncate_fully(copy.image.end_offset)


def install(copy: MetadataCopy, snapshot_id: tuple[int, int], image: Image) -> None:
    """QU-21: continue from the leader's snapshot; `store_snapshot` writes it."""
    copy.image, copy.epoch = image, snapshot_id[1]


def store_snapshot(copy: MetadataCopy, snapshot_id: tuple[int, int], data: bytes) -> None:
    """Write a snapshot in place of the log. Raises `StorageError`."""
    if copy.stored is not None:
        snapshots.install(copy.stored, snapshot_id, data)


def close(copy: MetadataCopy) -> None:
    """A clean stop: make the copy durable. Raises `StorageError`."""
    if copy.stored is not None:
        copy.stored.log.sync()
