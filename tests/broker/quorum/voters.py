"""A voter of the quorum for tests of single events, and what it has sent and awaits."""

from __future__ import annotations

from broker.core.configuration.settings import Settings
from broker.core.log.log import Log, LogConfig
from broker.core.ports.events import CancelTimer, Send, SetTimer
from broker.core.ports.runtime import Runtime
from broker.core.quorum.elections import ELECTION
from broker.core.quorum.state import FetchProgress, Quorum, QuorumRole
from broker.core.records import encode_batch
from broker.core.rules.flaws import rules_for
from tests.support.memory_files import MemoryFiles

NOBODY, UNKNOWN = -1, -1
ME, OTHER, THIRD = 100, 101, 102
CLUSTER = "cluster"
EPOCH, END = 5, 3
"""Of a voter as the tests find it: its epoch, and the end of its log, whose last record is of epoch 4."""
LAST = 4


def voter(
    role: QuorumRole = QuorumRole.UNATTACHED, leader: int = NOBODY, voters: int = 3, files: object = None
) -> Quorum:
    files = MemoryFiles() if files is None else files
    settings = Settings(
        node_id=ME,
        roles=("controller",),
        voters=dict.fromkeys(range(ME, ME + voters), ("c", 1)),
        listeners=(),
        log_dirs=("/",),
        cluster_id=CLUSTER,
        controller_quorum_election_timeout_ms=1000,
        controller_quorum_fetch_timeout_ms=2000,
        controller_quorum_election_backoff_max_ms=1000,
    )
    log = Log.open(files, "metadata", LogConfig(), clean=True)
    for _ in range(END - log.end_offset):
        log.append_as_leader(encode_batch([(None, b"record")], 0, 0, 0), LAST)
    quorum = Quorum(settings, rules_for("K5", ()).quorum, Runtime(), files, log, "one", EPOCH, leader, role=role)
    if role is QuorumRole.LEADER:
        quorum.leader = ME
        quorum.voters = {other: FetchProgress() for other in quorum.others}
    return quorum


def sent(quorum: Quorum, kind: type) -> dict[int, object]:
    """The requests of a kind that were sent, by receiver."""
    return {
        effect.to: effect.request
        for effect in quorum.runtime.effects
        if isinstance(effect, Send) and isinstance(effect.request, kind)
    }


def timer(quorum: Quorum, key: str = ELECTION) -> int | None:
    """When the timer is to fire, in ms from now; None if it is not set."""
    found = None
    for effect in quorum.runtime.effects:
        if isinstance(effect, SetTimer) and effect.key == (key,):
            found = effect.at_ms - quorum.runtime.now_ms
        elif isinstance(effect, CancelTimer) and effect.key == (key,):
            found = None
    return found
