"""What a broker of the second design does when it starts, when a watch fires, and when its session changes."""

from __future__ import annotations

from collections.abc import Callable

from broker.core.ports.coordination import (
    Answer,
    Create,
    Exists,
    GetChildren,
    SessionChanged,
    SessionState,
    WatchFired,
)
from broker.core.ports.marks import sometimes
from broker.zookeeper import paths
from broker.zookeeper.choices import LEADS_ON_AFTER_EXPIRY, LOSER_FOLLOWS_NOBODY
from broker.zookeeper.designs.v2 import leading, state_changes
from broker.zookeeper.designs.v2.reassignment import GIVE_UP
from broker.zookeeper.designs.v2.state_changes import QUEUE
from broker.zookeeper.paths import Key
from broker.zookeeper.procedures import Steps
from broker.zookeeper.reading import begin_session, listener_address, read_ids, register
from broker.zookeeper.replicas import leading as replica_leading
from broker.zookeeper.replicas.hosting import LEADER_CHANGE
from broker.zookeeper.replicas.leading import COMMIT, ROLE
from broker.zookeeper.state import Hosted, ZooKeeperState

ABDICATED = sometimes("zookeeper: a leader hears that its session has expired, and leads no more")
WATCHES_SET_ANEW = sometimes(
    "zookeeper: a connection is back in time, and the watches of the second design are set anew"
)

_REASSIGNMENTS = "reassignments"


# --- sessions --------------------------------------------------------------------------------------------------------


def session_changed(zk: ZooKeeperState, event: SessionChanged) -> None:
    """A session lost or won. The end of one ends everything that the broker did in it (Q14), then it starts again."""
    zk.broker.runtime.log("info", f"session {event.session:x} is {event.state.value}")
    match event.state:
        case SessionState.OPEN | SessionState.RESTORED:
            if event.state is SessionState.RESTORED:
                zk.broker.runtime.mark(WATCHES_SET_ANEW)
            zk.session = event.session
            for hosted in zk.hosted.values():
                hosted.is_listening = False
            zk.awaited.clear()
            zk.procedures.connected()
            zk.procedures.start(QUEUE, _start_up(zk))
        case SessionState.SUSPENDED:
            zk.procedures.disconnected()
        case SessionState.EXPIRED:
            zk.procedures.disconnected()
            zk.is_registered = False
            if not zk.chose(LEADS_ON_AFTER_EXPIRY):
                _abdicate(zk)
            begin_session(zk)


def _abdicate(zk: ZooKeeperState) -> None:
    """The session-expiration listener: stop all commit threads and fetchers, and forget who leads."""
    zk.procedures.cancel(QUEUE)
    zk.procedures.cancel(_REASSIGNMENTS)
    for hosted in zk.hosted.values():
        for name in (COMMIT, ROLE, LEADER_CHANGE, GIVE_UP):
            zk.procedures.cancel((name, hosted.key))
        if hosted.is_open:
            zk.broker.runtime.mark(ABDICATED)
        replica_leading.step_down(zk, hosted)
        hosted.open_fetch = None


def _start_up(zk: ZooKeeperState) -> Steps[None]:
    """`brokerStartup`: the queue first, then the assigned replicas; the others hear of this broker last.

    It runs in the place of the state-change listener, which goes on once this has ended. Also sets all watches anew.
    """
    for path in (*paths.PERSISTENT, paths.STATES, paths.queue(zk.broker_id)):
        yield Create(path)
    yield from state_changes.drain(zk)
    for key in (yield from _assigned(zk, paths.TOPICS, replicas_of=paths.replicas)):
        yield from state_changes.start_replica(zk, key)
    for key in (yield from _assigned(zk, paths.REASSIGNED, replicas_of=paths.reassigned)):
        hosted = zk.hosted.get(key)
        if hosted is None or not hosted.is_listening:
            yield from state_changes.start_replica(zk, key)
    if any(hosted.is_elected for hosted in zk.hosted.values()):
        yield from _look_at_reassignments(zk)
    yield from register(zk, paths.broker(zk.broker_id), listener_address(zk))
    zk.is_registered = True
    yield from state_changes.drain(zk)


def _assigned(zk: ZooKeeperState, parent: str, *, replicas_of: Callable[[Key], str]) -> Steps[list[Key]]:
    """The partitions under a path that have, or are to have, a replica here."""
    keys = []
    for topic in (yield GetChildren(parent)).children:
        for name in (yield GetChildren(f"{parent}/{topic}")).children:
            key = (topic, paths.number_of(name, f"{parent}/{topic}"))
            if zk.broker_id in ((yield from read_ids(replicas_of(key))) or ()):
                keys.append(key)
    return keys


# --- watches ---------------------------------------------------------------------------------------------------------


def watch_fired(zk: ZooKeeperState, event: WatchFired) -> None:
    """Read again what has changed, and set the watch again by reading."""
    zk.awaited.discard(event.path)
    if event.path == paths.queue(zk.broker_id):
        if not zk.procedures.runs(QUEUE):  # which reads the queue once more before it ends
            zk.procedures.start(QUEUE, state_changes.drain(zk))
        return
    place = paths.place(event.path)
    if place is None:
        return
    hosted = zk.hosted.get(place.key)
    match place.kind:
        case "leader" if hosted is not None:
            zk.procedures.start((LEADER_CHANGE, place.key), _leader_changed(zk, hosted))
        case "reassignments" | "reassigned topic":
            zk.procedures.start(_REASSIGNMENTS, _look_at_reassignments(zk))


def _leader_changed(zk: ZooKeeperState, hosted: Hosted) -> Steps[None]:
    """`onLeaderChange`: an election; one that is over already, because there is a new leader, is lost at once."""
    found: Answer = yield Exists(paths.leader(hosted.key), watch=True)
    if zk.chose(LOSER_FOLLOWS_NOBODY) and found.stat is not None and found.stat.owner != zk.session:
        return
    yield from state_changes.take_role(zk, hosted)


def _look_at_reassignments(zk: ZooKeeperState) -> Steps[None]:
    """For all that is led here, and for what is about to open, which may have looked just before the change."""
    for hosted in list(zk.hosted.values()):
        if hosted.is_elected:
            yield from leading.look_at_reassignment(zk, hosted)
