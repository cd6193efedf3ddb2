"""Everything that a controller knows (§2.1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from broker.core.files import Files
from broker.core.log.log import Log
from broker.core.messages import AnyResponse, FetchRequest, ReplicaLogInfo
from broker.core.metadata.image import Image
from broker.core.rules import Rules
from broker.core.runtime import Runtime
from broker.core.settings import Settings

METADATA_DIRECTORY = "__cluster_metadata-0"


class PendingReply(NamedTuple):
    """An answer that may be given when everything before `offset` is committed (CT-1)."""

    offset: int
    request_id: int
    response: AnyResponse


class WaitingMetadataFetch(NamedTuple):
    """An observer that waits for committed records."""

    request: FetchRequest
    connection: int


@dataclass(slots=True)
class RecoveryJob:
    """An unclean recovery in progress (UR-6): who was asked, and what they said."""

    partition_epoch: int
    asked: dict[int, int]  # broker -> its epoch when it was asked
    infos: dict[int, ReplicaLogInfo] = field(default_factory=dict)


@dataclass(slots=True)
class ControllerState:
    """A controller, whole. Only the log is durable; the image is what it adds up to, uncommitted records included (CT-2)."""

    settings: Settings
    rules: Rules
    files: Files
    log: Log
    epoch: int
    runtime: Runtime = field(default_factory=Runtime)
    image: Image = field(default_factory=Image)
    committed: int = 0
    flushing_to: int | None = None
    replies: list[PendingReply] = field(default_factory=list)
    fetches: dict[int, WaitingMetadataFetch] = field(default_factory=dict)
    last_contact_ms: dict[int, int] = field(default_factory=dict)
    metadata_offsets: dict[int, int] = field(default_factory=dict)
    shutdown_offsets: dict[int, int] = field(default_factory=dict)
    recoveries: dict[tuple[str, int], RecoveryJob] = field(default_factory=dict)
