"""The same random calls to the tree in memory and to real servers, through kazoo: the same answers and events."""

from __future__ import annotations

import queue
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.core.ports.coordination import (
    Answer,
    Call,
    CallError,
    ChangeKind,
    Coordinate,
    Coordinated,
    CoordinationEvent,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    NodeStat,
    OpenSession,
    SessionChanged,
    SessionState,
    SetData,
    WatchFired,
)
from broker.zookeeper.tree import ZooKeeperTree
from tests.support import zookeeper

pytestmark = pytest.mark.zookeeper

WAIT_S = 30
SESSIONS = 3


class RealSession:
    """A session with the ensemble, used from one thread."""

    def __init__(self, hosts: str, timeout_ms: int = 4_000) -> None:
        from broker.shell.coordination import KazooCoordination

        self._events: queue.Queue[CoordinationEvent] = queue.Queue()
        self._kazoo = KazooCoordination(hosts, self._events.put)
        self._timeout_ms = timeout_ms
        self._calls = 0
        self.open()

    def open(self) -> None:
        self._kazoo.open(OpenSession(self._timeout_ms))
        self.number = self.changed_to(SessionState.OPEN)

    def changed_to(self, state: SessionState) -> int:
        """Wait for a state of the session, whatever happens before; its id."""
        while True:
            event = self._events.get(timeout=WAIT_S)
            if isinstance(event, SessionChanged) and event.state is state:
                return event.session

    def call(self, call: Call) -> tuple[Answer, list[WatchFired]]:
        """The answer, and the watches that fired before it."""
        self._calls += 1
        self._kazoo.coordinate(Coordinate(self._calls, call))
        fired: list[WatchFired] = []
        while True:
            match self._events.get(timeout=WAIT_S):
                case Coordinated(number, answer) if number == self._calls:
                    return answer, fired
                case WatchFired() as event:
                    fired.append(event)

    def close(self) -> None:
        self._kazoo.close()


class Both:
    """Sessions of a tree and of an ensemble, side by side, below one node of the ensemble."""

    def __init__(self, hosts: str, root: str) -> None:
        self.hosts, self.tree = hosts, ZooKeeperTree()
        self.ours: list[int] = []
        self.theirs: list[RealSession] = []
        for _ in range(SESSIONS):
            self.open()
        self.root = root
        self.compare(0, Create(root))

    def open(self) -> None:
        self.ours.append(self.tree.open_session())
        self.theirs.append(RealSession(self.hosts))

    def compare(self, who: int, call: Call) -> None:
        """Call both in one session: answer and order of events, in this session and in all others."""
        answer, fired = self.tree.call(self.ours[who], call)
        theirs, first = self.theirs[who].call(call)
        assert self._plain(theirs) == answer, call
        assert first == [one.event for one in fired if one.session == self.ours[who]], call
        for other, session in enumerate(self.theirs):
            if other != who:
                _, events = session.call(Exists("/"))
                assert events == [one.event for one in fired if one.session == self.ours[other]], call

    def end(self, who: int) -> None:
        """End a session in both; its ephemeral nodes go in no certain order."""
        fired = self.tree.end_session(self.ours.pop(who))
        self.theirs.pop(who).close()
        for number, session in zip(self.ours, self.theirs, strict=True):
            _, events = session.call(Exists("/"))
            assert sorted(events) == sorted(one.event for one in fired if one.session == number)

    def _plain(self, answer: Answer) -> Answer:
        """With the ids of our sessions for the ensemble's."""
        if answer.stat is None:
            return answer
        owners = {0: 0} | {real.number: ours for ours, real in zip(self.ours, self.theirs, strict=True)}
        return answer._replace(stat=NodeStat(*answer.stat[:2], owners[answer.stat.owner], answer.stat.children))

    def close(self) -> None:
        for session in self.theirs:
            session.close()


def random_call(chance: random.Random, root: str) -> Call:
    path = root + "".join(f"/{chance.choice('ab')}" for _ in range(chance.randint(1, 3)))
    data = bytes((chance.randrange(256),))
    version = chance.choice((-1, -1, 0, 1, 2))
    watch = chance.random() < 0.6
    return chance.choice(
        (
            Create(path, data, ephemeral=chance.random() < 0.4, sequential=chance.random() < 0.2),
            Create(path, data),
            SetData(path, data, version),
            Delete(path, version),
            GetData(path, watch),
            GetChildren(path, watch),
            GetChildren(root, watch),
            Exists(path, watch),
        )
    )


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zookeeper.Ensemble]:
    if reason := zookeeper.missing():
        pytest.skip(reason)
    with zookeeper.ensemble(tmp_path_factory.mktemp("zookeeper"), 1) as started:
        yield started


@pytest.mark.parametrize("seed", range(12))
def test_random_calls_have_the_same_answers_and_events(servers: zookeeper.Ensemble, seed: int) -> None:
    chance = random.Random(f"calls/{seed}")
    both = Both(servers.hosts, f"/random-{seed}")
    try:
        kinds = set()
        for _ in range(150):
            if chance.random() < 0.03:
                both.end(chance.randrange(SESSIONS))
                both.open()
            call = random_call(chance, both.root)
            kinds.add(type(call))
            both.compare(chance.randrange(SESSIONS), call)
        assert len(kinds) == 6
    finally:
        both.close()


def test_a_planted_difference_is_seen(servers: zookeeper.Ensemble) -> None:
    both = Both(servers.hosts, "/planted")
    try:
        both.tree.call(both.ours[0], SetData(both.root, b"only here"))
        with pytest.raises(AssertionError):
            both.compare(1, GetData(both.root))
    finally:
        both.close()


def test_a_killed_member_suspends_its_sessions_which_lose_their_watches_and_keep_their_nodes(tmp_path: Path) -> None:
    if reason := zookeeper.missing():
        pytest.skip(reason)
    with zookeeper.ensemble(tmp_path, 3) as servers:
        watcher, changer = RealSession(servers.hosts, 8_000), RealSession(servers.hosts, 8_000)
        try:
            watcher.call(Create("/mine", b"1", ephemeral=True))
            watcher.call(GetData("/mine", watch=True))
            member = _member_of(watcher, servers)
            servers.kill(member)
            assert watcher.changed_to(SessionState.SUSPENDED) == watcher.number
            assert watcher.changed_to(SessionState.RESTORED) == watcher.number
            while changer.call(SetData("/mine", b"2"))[0].error is CallError.CONNECTION_LOSS:
                pass  # it was connected to the same member
            answer, fired = watcher.call(GetData("/mine"))
            assert (answer.data, fired) == (b"2", [])
            assert answer.stat is not None
            assert answer.stat.owner == watcher.number
        finally:
            watcher.close()
            changer.close()


def test_a_session_that_the_servers_end_is_told_and_its_node_can_begin_another(servers: zookeeper.Ensemble) -> None:
    from kazoo.client import KazooClient

    session, other = RealSession(servers.hosts), RealSession(servers.hosts)
    try:
        session.call(Create("/gone", ephemeral=True))
        other.call(Exists("/gone", watch=True))
        thief = KazooClient(servers.hosts, client_id=_client(session).client_id)
        thief.start()
        thief.stop()  # ends the session that both have
        thief.close()
        assert session.changed_to(SessionState.EXPIRED) == session.number
        assert session.call(GetData("/gone"))[0].error is CallError.SESSION_EXPIRED
        assert other.call(Exists("/gone"))[1] == [WatchFired(ChangeKind.DELETED, "/gone")]
        session.open()
        assert session.call(Create("/gone", ephemeral=True))[0] == Answer(path="/gone")
    finally:
        session.close()
        other.close()


def test_without_servers_a_call_fails_at_once(tmp_path: Path) -> None:
    if reason := zookeeper.missing():
        pytest.skip(reason)
    with zookeeper.ensemble(tmp_path, 1) as servers:
        session = RealSession(servers.hosts)
        try:
            servers.kill(0)
            session.changed_to(SessionState.SUSPENDED)
            assert session.call(GetData("/"))[0].error is CallError.CONNECTION_LOSS
        finally:
            session.close()


def _client(session: RealSession) -> Any:
    kazoo = session._kazoo._session
    assert kazoo is not None
    return kazoo._client


def _member_of(session: RealSession, servers: zookeeper.Ensemble) -> int:
    """The server that a session is connected to."""
    port = _client(session)._connection._socket.getpeername()[1]
    return next(at for at, (client, _, _) in enumerate(servers.ports) if client == port)
