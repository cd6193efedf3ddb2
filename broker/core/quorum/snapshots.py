"""Writes, transfers and loads snapshots of the metadata image, so that the older log can be deleted (§18.6).

A snapshot is one record batch whose records recreate the image; its name is `<end offset>-<epoch>.checkpoint`.
"""

from __future__ import annotations

from typing import Protocol

from broker.core.log.checkpoints import Unusable
from broker.core.log.log import Log
from broker.core.messages import UNKNOWN, FetchSnapshotRequest, FetchSnapshotResponse
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import Image
from broker.core.metadata.records import decode_change, encode_change
from broker.core.ports.files import Files
from broker.core.ports.marks import sometimes
from broker.core.ports.runtime import Runtime
from broker.core.quorum.state import Quorum, QuorumRole
from broker.core.records import MalformedBatch, check_crc, read_header

TAKEN = sometimes("metadata snapshot: taken (QU-20)")
WANTED = sometimes("metadata snapshot: a voter has to take one from the leader (QU-21)")
SENT = sometimes("metadata snapshot: a piece was sent (QU-21)")
LOADED = sometimes("metadata snapshot: loaded from the leader (QU-21)")
TRANSFER_FAILED = sometimes("metadata snapshot: a transfer came to nothing (QU-21)")
GONE = sometimes("metadata snapshot refused: there is a newer one (QU-21)")
UNREADABLE = sometimes("metadata snapshot: one on the disk cannot be read")

FETCH_SNAPSHOT = "fetch-snapshot"
_SUFFIX = ".checkpoint"
_CHANNEL = "quorum-fetch"
_READ_BYTES = 1 << 20


class StoredLog(Protocol):
    """The metadata log on a disk: a voter's, or a broker's copy."""

    files: Files
    runtime: Runtime
    log: Log
    snapshot_id: tuple[int, int]
    high_watermark: int


def file_name(directory: str, snapshot_id: tuple[int, int]) -> str:
    """Path of a snapshot."""
    return f"{directory}/{snapshot_id[0]:020d}-{snapshot_id[1]:010d}{_SUFFIX}"


def find(files: Files, directory: str) -> list[tuple[int, int]]:
    """Ids of the snapshots on the disk, oldest first."""
    found = []
    for name in files.list(directory):
        offset, dash, epoch = name.removesuffix(_SUFFIX).partition("-")
        if name.endswith(_SUFFIX) and dash and offset.isdigit() and epoch.isdigit():
            found.append((int(offset), int(epoch)))
    return sorted(found)


def load_latest(stored: StoredLog) -> Image:
    """The image of the newest readable snapshot; empty if there is none."""
    for snapshot_id in reversed(find(stored.files, stored.log.directory)):
        image = read(stored.files, stored.log.directory, snapshot_id)
        if isinstance(image, Image):
            stored.snapshot_id = snapshot_id
            return image
        stored.runtime.mark(UNREADABLE)
        stored.runtime.log("warning", image.reason)
    return Image()


def replayed(stored: StoredLog, upto: int) -> Image:
    """The image of the newest snapshot and the log after it, up to an offset."""
    image = load_latest(stored)
    replay(image, stored, upto)
    return image


def replay(image: Image, stored: StoredLog, upto: int) -> None:
    """Apply the log from where the image ends up to an offset."""
    while image.end_offset < upto and image.apply_batches(stored.log.read(image.end_offset, _READ_BYTES, upto)):
        pass


def read(files: Files, directory: str, snapshot_id: tuple[int, int]) -> Image | Unusable:
    """Read one snapshot, or return why it cannot be used."""
    name = file_name(directory, snapshot_id)
    return decode(files.read(name, 0, files.size(name)), snapshot_id)


def decode(data: bytes, snapshot_id: tuple[int, int]) -> Image | Unusable:
    """Decode a snapshot's image, or return why it cannot be used."""
    try:
        header = read_header(data)
        if header.size != len(data) or not check_crc(data, 0, header.size):
            return Unusable(f"expected a whole snapshot {snapshot_id}, found {len(data)} bytes with a wrong checksum")
    except MalformedBatch as error:
        return Unusable(f"expected a snapshot {snapshot_id}: {error}")
    image = Image()
    for offset, record in decode_change(data):
        image.apply(offset, record)
    image.end_offset = snapshot_id[0]
    return image


def take(stored: StoredLog, image: Image) -> None:
    """QU-20: write a snapshot at the high watermark, and delete the log before it. `image` is the committed one."""
    end_offset = image.end_offset
    if end_offset <= stored.snapshot_id[0] or end_offset > stored.high_watermark:
        return
    snapshot_id = (end_offset, stored.log.epochs.epoch_at(end_offset - 1))
    _write(stored, snapshot_id, encode_change(image.to_records(), 0, snapshot_id[1]))
    stored.log.advance_start(end_offset)
    stored.runtime.mark(TAKEN)
    stored.runtime.log("info", f"metadata snapshot at {end_offset}")


def install(stored: StoredLog, snapshot_id: tuple[int, int], data: bytes) -> None:
    """QU-21: put the leader's snapshot in place of the log, which is emptied and restarts after it."""
    _write(stored, snapshot_id, data)
    stored.log.truncate_fully(snapshot_id[0])
    stored.high_watermark = snapshot_id[0]


def _write(stored: StoredLog, snapshot_id: tuple[int, int], data: bytes) -> None:
    stored.files.replace(file_name(stored.log.directory, snapshot_id), data)
    stored.snapshot_id = snapshot_id
    for old in find(stored.files, stored.log.directory):
        if old < snapshot_id:
            stored.files.delete(file_name(stored.log.directory, old))


# --- transfer --------------------------------------------------------------------------------------------------------


def begin_transfer(quorum: Quorum, snapshot_id: tuple[int, int]) -> None:
    """QU-21: the leader's log begins after ours ends; fetch its snapshot in chunks."""
    quorum.runtime.mark(WANTED)
    quorum.snapshot_transfer = (snapshot_id, b"")
    ask(quorum)


def ask(quorum: Quorum) -> None:
    """Request the next chunk."""
    if quorum.snapshot_transfer is None or quorum.role is not QuorumRole.FOLLOWER:
        quorum.snapshot_transfer = None
        return
    snapshot_id, data = quorum.snapshot_transfer
    quorum.runtime.send(
        quorum.leader,
        FetchSnapshotRequest(
            quorum.settings.cluster_id,
            quorum.node_id,
            quorum.settings.metadata_snapshot_fetch_max_bytes,
            quorum.epoch,
            snapshot_id,
            len(data),
        ),
        channel=_CHANNEL,
        timeout_ms=quorum.settings.controller_quorum_request_timeout_ms,
        purpose=FETCH_SNAPSHOT,
    )


def handle(quorum: Quorum, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
    """QU-2, QU-21: serve a chunk of a snapshot that this leader has. An older requester may not name its cluster."""

    def refuse(error: ErrorCode) -> FetchSnapshotResponse:
        return FetchSnapshotResponse(error, request.snapshot_id, leader_id=quorum.leader, leader_epoch=quorum.epoch)

    if request.cluster_id not in ("", quorum.settings.cluster_id):
        return refuse(ErrorCode.INCONSISTENT_CLUSTER_ID)
    if request.current_leader_epoch not in (UNKNOWN, quorum.epoch):
        older = request.current_leader_epoch < quorum.epoch
        return refuse(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)
    if not quorum.leads:
        return refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    name = file_name(quorum.log.directory, request.snapshot_id)
    size = quorum.files.size(name)
    if not size:
        quorum.runtime.mark(GONE)
        return refuse(ErrorCode.SNAPSHOT_NOT_FOUND)
    if not 0 <= request.position < size:
        return refuse(ErrorCode.POSITION_OUT_OF_RANGE)
    quorum.runtime.mark(SENT)
    most_bytes = min(request.max_bytes, quorum.settings.metadata_snapshot_fetch_max_bytes)
    data = quorum.files.read(name, request.position, max(1, most_bytes))
    return FetchSnapshotResponse(
        ErrorCode.NONE, request.snapshot_id, size, request.position, data, quorum.leader, quorum.epoch
    )


def arrived(quorum: Quorum, response: FetchSnapshotResponse | None) -> Image | None:
    """QU-21: handle a chunk; returns the image after the last, with which the log restarts."""
    if quorum.snapshot_transfer is None:
        return None
    snapshot_id, data = quorum.snapshot_transfer
    usable = (
        response is not None
        and response.error_code == ErrorCode.NONE
        and response.snapshot_id == snapshot_id
        and response.position == len(data)
        and quorum.role is QuorumRole.FOLLOWER
    )
    if not usable or response is None:
        quorum.runtime.mark(TRANSFER_FAILED)
        quorum.snapshot_transfer = None
        return None
    data += response.data
    if len(data) < response.size:
        quorum.snapshot_transfer = (snapshot_id, data)
        ask(quorum)
        return None
    quorum.snapshot_transfer = None
    image = decode(data, snapshot_id)
    if isinstance(image, Unusable):
        quorum.runtime.log("error", image.reason)
        return None
    install(quorum, snapshot_id, data)
    quorum.runtime.mark(LOADED)
    quorum.runtime.log("info", f"metadata snapshot {snapshot_id} loaded")
    return image
