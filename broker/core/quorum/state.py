"""The state of a voter of the quorum (§18.1)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum
from zlib import crc32

from broker.core.configuration.settings import Settings
from broker.core.log.log import Log
from broker.core.messages import NO_LEADER, UNKNOWN
from broker.core.ports.files import Files
from broker.core.ports.runtime import Runtime
from broker.core.rules.quorum import QuorumRules

QUORUM_STATE = "quorum-state"


class QuorumRole(Enum):
    """The role of a voter."""

    UNATTACHED = "unattached"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    FOLLOWER = "follower"
    RESIGNED = "resigned"


@dataclass(slots=True)
class FetchProgress:
    """A voter's or observer's position, by its fetches from this leader."""

    log_end: int = UNKNOWN
    last_fetch_ms: int = UNKNOWN
    caught_up_ms: int = UNKNOWN


@dataclass(slots=True)
class Quorum:
    """One voter. `epoch`, `leader` and `voted_for` are durable; the rest is volatile."""

    settings: Settings
    rules: QuorumRules
    runtime: Runtime
    files: Files
    log: Log
    incarnation_id: str
    epoch: int = 0
    leader: int = NO_LEADER
    voted_for: int = NO_LEADER
    role: QuorumRole = QuorumRole.UNATTACHED
    high_watermark: int = 0
    granted: dict[int, bool] = field(default_factory=dict)  # votes of the current round
    failed_rounds: int = 0
    has_fetched: bool = False  # from the current leader
    fetching: bool = False
    flushing_to: tuple[int, int] | None = None
    epoch_start: int = 0
    voters: dict[int, FetchProgress] = field(default_factory=dict)
    observers: dict[int, FetchProgress] = field(default_factory=dict)
    leader_since_ms: int = 0
    snapshot_id: tuple[int, int] = (0, UNKNOWN)  # of the latest snapshot: (end offset, epoch)
    snapshot_transfer: tuple[tuple[int, int], bytes] | None = None
    draws: int = 0

    @property
    def node_id(self) -> int:
        """This voter's id."""
        return self.settings.node_id

    @property
    def others(self) -> tuple[int, ...]:
        """The other voters, in order."""
        return tuple(voter for voter in sorted(self.settings.voters) if voter != self.node_id)

    @property
    def majority(self) -> int:
        """The size of a majority."""
        return len(self.settings.voters) // 2 + 1

    @property
    def leads(self) -> bool:
        """Whether this voter is the leader."""
        return self.role is QuorumRole.LEADER

    def last_epoch_and_end(self) -> tuple[int, int]:
        """(epoch, offset) of the log's end, by which logs are compared."""
        epoch = self.log.last_epoch
        return (epoch if epoch != UNKNOWN else self.snapshot_id[1], self.log.end_offset)

    def jitter_ms(self, bound_ms: int) -> int:
        """A number below `bound_ms` that varies by voter, incarnation and call, derived from the incarnation id."""
        self.draws += 1
        return crc32(f"{self.incarnation_id}/{self.node_id}/{self.draws}".encode()) % max(1, bound_ms)

    def persist(self) -> None:
        """QU-8: make the state durable before anything that depends on it is sent."""
        if not self.rules.remembers_votes():
            return
        state = {"epoch": self.epoch, "leader": self.leader, "voted": self.voted_for}
        self.files.replace(QUORUM_STATE, json.dumps(state).encode())


def read_stored(files: Files) -> tuple[int, int, int] | None:
    """The stored (epoch, leader, vote); None if missing or garbage: a voter with a new disk."""
    try:
        state = json.loads(files.read(QUORUM_STATE, 0, files.size(QUORUM_STATE)))
        return int(state["epoch"]), int(state["leader"]), int(state["voted"])
    except (ValueError, KeyError, TypeError):
        return None
