"""What a broker does when it starts, when a watch fires, and when its session changes."""

from __future__ import annotations

from broker.core.ports.coordination import (
    Answer,
    ChangeKind,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    SessionChanged,
    SessionState,
    WatchFired,
)
from broker.core.ports.marks import sometimes
from broker.core.replica.state import Role
from broker.zookeeper import paths
from broker.zookeeper.choices import FOLLOWS_ON_REQUEST, IGNORES_EXPIRY
from broker.zookeeper.designs.v1 import election, leading, requests
from broker.zookeeper.designs.v1.leading import become_leader_again
from broker.zookeeper.designs.v1.requests import StateChange
from broker.zookeeper.paths import Key
from broker.zookeeper.procedures import Steps
from broker.zookeeper.reading import begin_session, listener_address, read_ids, register
from broker.zookeeper.replicas import following, hosting
from broker.zookeeper.replicas.hosting import LEADER_CHANGE, LISTEN
from broker.zookeeper.replicas.leading import ROLE, see_to_own
from broker.zookeeper.state import Hosted, ZooKeeperState

EXPIRED = sometimes("zookeeper: a broker hears that its session has expired")
EXPIRED_LEADING = sometimes("zookeeper: a leader hears that its session has expired (Z-02)")
RESTORED = sometimes("zookeeper: a connection is back in time, and all watches are set anew")
RETURNED_TO_LEADER = sometimes("zookeeper: a replica returns and follows the leader that there is")
MERGED = sometimes("zookeeper: two requests to a replica were read as one (Z-09)")

_START = "start-up"


# --- sessions --------------------------------------------------------------------------------------------------------


def session_changed(zk: ZooKeeperState, event: SessionChanged) -> None:
    """A session lost or won. The design says nothing of either: leaders go on until they hear of another (Z-02).

    Calls that were under way are made first in a new session, before the broker looks at what has changed.
    """
    zk.broker.runtime.log("info", f"session {event.session:x} is {event.state.value}")
    match event.state:
        case SessionState.OPEN:
            is_first = not zk.is_registered
            zk.session = event.session
            _watches_are_gone(zk)
            zk.procedures.connected()
            if is_first or not zk.chose(IGNORES_EXPIRY):
                zk.procedures.start(_START, _start_up(zk))
        case SessionState.RESTORED:
            zk.broker.runtime.mark(RESTORED)
            _watches_are_gone(zk)
            zk.procedures.connected()
            zk.procedures.start(_START, _start_up(zk))
        case SessionState.SUSPENDED:
            zk.procedures.disconnected()
        case SessionState.EXPIRED:
            zk.broker.runtime.mark(EXPIRED)
            if any(hosted.is_open for hosted in zk.hosted.values()):
                zk.broker.runtime.mark(EXPIRED_LEADING)
            zk.procedures.disconnected()
            begin_session(zk)


def _watches_are_gone(zk: ZooKeeperState) -> None:
    for hosted in zk.hosted.values():
        hosted.is_listening = False


def _start_up(zk: ZooKeeperState) -> Steps[None]:
    """`brokerStartup`: register first, then look for assigned replicas. Also sets all watches anew."""
    for path in paths.PERSISTENT:
        yield Create(path)
    yield from register(zk, paths.broker(zk.broker_id), listener_address(zk))
    zk.is_registered = True
    yield from _look_for_topics(zk)
    yield from _look_for_reassignments(zk)
    for hosted in list(zk.hosted.values()):
        if not hosted.is_listening:  # it was moved away meanwhile, and another one may lead it
            _host(zk, hosted.key, hosted.replica.replicas)


# --- topics and partitions -------------------------------------------------------------------------------------------


def _look_for_topics(zk: ZooKeeperState) -> Steps[None]:
    """Every broker watches for topics, because a new one has no leader that could (Q12)."""
    for topic in (yield GetChildren(paths.TOPICS, watch=True)).children:
        yield from _look_into(zk, topic)


def _look_into(zk: ZooKeeperState, topic: str) -> Steps[None]:
    for name in (yield GetChildren(paths.topic(topic), watch=True)).children:
        yield from _look_at(zk, (topic, paths.number_of(name, paths.topic(topic))))


def _look_at(zk: ZooKeeperState, key: Key) -> Steps[None]:
    assigned = yield from read_ids(paths.replicas(key))
    if assigned is None:
        found: Answer = yield Exists(paths.replicas(key), watch=True)
        if found.error is not None:
            return  # it is being created, and the watch will say when it is
        assigned = (yield from read_ids(paths.replicas(key))) or ()
    if zk.broker_id in assigned:
        _host(zk, key, assigned)


def _look_for_reassignments(zk: ZooKeeperState) -> Steps[None]:
    for topic in (yield GetChildren(paths.REASSIGNED, watch=True)).children:
        yield from _look_into_reassigned(zk, topic)


def _look_into_reassigned(zk: ZooKeeperState, topic: str) -> Steps[None]:
    path = paths.reassigned_topic(topic)
    for name in (yield GetChildren(path, watch=True)).children:
        key = (topic, paths.number_of(name, path))
        hosted = zk.hosted.get(key)
        if hosted is not None and hosted.is_elected:  # it may be about to open, and have looked just before the change
            yield from leading.look_at_reassignment(zk, hosted)
        elif hosted is None or not hosted.is_listening:
            target = (yield from read_ids(paths.reassigned(key))) or ()
            if zk.broker_id in target:  # it has no state znode yet that a leader could tell it by
                _host(zk, key, (yield from read_ids(paths.replicas(key))) or ())


def _host(zk: ZooKeeperState, key: Key, assigned: tuple[int, ...]) -> None:
    """Open or create the replica, and begin to listen for requests to it."""
    hosted = hosting.host(zk, key)
    if hosted is None:
        return
    if not hosted.is_listening:
        hosted.is_listening = True
        if not hosted.is_open:
            hosted.replica.replicas = assigned
        zk.procedures.start((LISTEN, key), _listen(zk, hosted))


def _listen(zk: ZooKeeperState, hosted: Hosted) -> Steps[None]:
    """Register for requests to the replica; act on one that has come meanwhile, else see who leads."""
    yield from register(zk, paths.state(hosted.key, zk.broker_id))
    if hosted.registered_in != zk.session:
        hosted.registered_in, hosted.state_version = zk.session, 0
    yield Exists(paths.leader(hosted.key), watch=True)  # the leader-change listener
    before = hosted.state_version
    yield from _state_changed(zk, hosted)
    if hosted.state_version == before:
        yield from _replica_state_change(zk, hosted)


# --- watches ---------------------------------------------------------------------------------------------------------


def watch_fired(zk: ZooKeeperState, event: WatchFired) -> None:
    """Read again what has changed, and set the watch again by reading."""
    zk.awaited.discard(event.path)
    place = paths.place(event.path)
    if place is None:
        return
    hosted = zk.hosted.get(place.key)
    match place.kind:
        case "topics":
            zk.procedures.start("topics", _look_for_topics(zk))
        case "topic" if event.kind is ChangeKind.CHILDREN:
            zk.procedures.start(("topic", place.topic), _look_into(zk, place.topic))
        case "reassignments":
            zk.procedures.start("reassignments", _look_for_reassignments(zk))
        case "reassigned topic" if event.kind is ChangeKind.CHILDREN:
            zk.procedures.start(("reassigned", place.topic), _look_into_reassigned(zk, place.topic))
        case "replicas":
            zk.procedures.start(("partition", place.key), _replicas_changed(zk, place.key, event.kind))
        case "leader" if hosted is not None:
            zk.procedures.start((LEADER_CHANGE, place.key), _leader_changed(zk, hosted))
        case "state" if hosted is not None and event.kind is ChangeKind.DATA:
            zk.procedures.start(("state-change", place.key), _state_changed(zk, hosted))


def _replicas_changed(zk: ZooKeeperState, key: Key, kind: ChangeKind) -> Steps[None]:
    """The replica-change listener of a leader, and the end of waiting for a partition that was being created."""
    hosted = zk.hosted.get(key)
    if kind is not ChangeKind.DELETED:
        yield from _look_at(zk, key)
    elif hosted is not None and hosted.is_open:
        for member in dict.fromkeys((*hosted.replica.replicas, *hosted.reassigned)):
            if member != zk.broker_id:
                yield from requests.send(zk, hosted, member, StateChange.DELETE_REPLICA)
        if _hosts(zk, hosted):
            _close(zk, hosted)


def _leader_changed(zk: ZooKeeperState, hosted: Hosted) -> Steps[None]:
    """The leader-change listener: without a leader there is an election; a new one tells its followers itself."""
    found: Answer = yield Exists(paths.leader(hosted.key), watch=True)
    if found.stat is None:
        zk.procedures.start((ROLE, hosted.key), election.leader_election(zk, hosted))
    elif found.stat.owner == zk.session:
        see_to_own(zk, hosted, become_leader_again)


def _state_changed(zk: ZooKeeperState, hosted: Hosted) -> Steps[None]:
    """The state-change listener: act on the request that is there now; one that it has replaced is lost (Z-09)."""
    path = paths.state(hosted.key, zk.broker_id)
    found: Answer = yield GetData(path, watch=True)
    if found.stat is None or found.stat.version == hosted.state_version or not _hosts(zk, hosted):
        return
    if found.stat.version > hosted.state_version + 1:
        zk.broker.runtime.mark(MERGED)
    hosted.state_version = found.stat.version
    match found.data.decode(errors="replace"):
        case StateChange.BECOME_FOLLOWER:
            named = yield from read_ids(paths.leader(hosted.key))
            if named == (zk.broker_id,):  # the request is of an earlier leader
                see_to_own(zk, hosted, become_leader_again)
            elif named is not None:
                zk.procedures.start((ROLE, hosted.key), following.become_follower(zk, hosted, become_leader_again))
        case StateChange.REPLICA_ASSIGNED:
            yield from _replica_state_change(zk, hosted)
        case StateChange.REPLICA_UNASSIGNED | StateChange.DELETE_REPLICA:
            _close(zk, hosted)
        case text:
            raise paths.BadZnode(path, f"one of {', '.join(StateChange)}", text)


def _hosts(zk: ZooKeeperState, hosted: Hosted) -> bool:
    """Whether the replica is not closed: another request may have asked for that meanwhile."""
    return zk.hosted.get(hosted.key) is hosted


def _close(zk: ZooKeeperState, hosted: Hosted) -> None:
    """Delete the replica, and be registered for requests to it no more, so that none is read again for its next one.

    An administrator who deletes the topic waits for that.
    """
    hosting.close(zk, hosted)
    zk.procedures.start(("unregister", hosted.key), _unregister(zk, hosted))


def _unregister(zk: ZooKeeperState, hosted: Hosted) -> Steps[None]:
    yield Delete(paths.state(hosted.key, zk.broker_id))


def _replica_state_change(zk: ZooKeeperState, hosted: Hosted) -> Steps[None]:
    """`replicaStateChange`: without a leader stand for election; with one, follow it.

    The detailed text leaves a replica that returns waiting for a request which nobody sends; the high-level text has
    it truncate and catch up. The latter is the default (`zk-follows-only-on-request` is the former).
    """
    role = (ROLE, hosted.key)
    named = yield from read_ids(paths.leader(hosted.key))
    if named is None:
        zk.procedures.start(role, election.leader_election(zk, hosted))
    elif named == (zk.broker_id,):
        see_to_own(zk, hosted, become_leader_again)  # unless it is of the last session, whose end the watch will tell
    elif hosted.replica.role is Role.FOLLOWER and named == (hosted.replica.leader,):
        return  # only the connection was lost, and the leader is the same
    elif not zk.chose(FOLLOWS_ON_REQUEST):
        zk.broker.runtime.mark(RETURNED_TO_LEADER)
        zk.procedures.start(role, following.become_follower(zk, hosted, become_leader_again))
