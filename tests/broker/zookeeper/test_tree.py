"""ZooKeeper's tree of nodes in memory."""

from __future__ import annotations

import pytest

from broker.core.ports.coordination import (
    Answer,
    Call,
    CallError,
    ChangeKind,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    NodeStat,
    SetData,
    WatchFired,
)
from broker.zookeeper.tree import Fired, ZooKeeperTree


class Two:
    """A tree with two sessions."""

    def __init__(self) -> None:
        self.tree = ZooKeeperTree()
        self.mine, self.other = self.tree.open_session(), self.tree.open_session()

    def call(self, call: Call, session: int | None = None) -> Answer:
        answer, self.fired = self.tree.call(session or self.mine, call)
        return answer


@pytest.fixture
def two() -> Two:
    return Two()


def test_of_two_who_create_a_node_one_wins(two: Two) -> None:
    assert two.call(Create("/leader", b"1", ephemeral=True)) == Answer(path="/leader")
    assert two.call(Create("/leader", b"2", ephemeral=True), two.other).error is CallError.NODE_EXISTS
    assert two.call(GetData("/leader")) == Answer(data=b"1", stat=NodeStat(0, 0, two.mine, 0))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (Create("/a/b/c"), CallError.NO_NODE),
        (Create("/mine/below"), CallError.EPHEMERAL_PARENT),
        (SetData("/none", b""), CallError.NO_NODE),
        (SetData("/a", b"", version=3), CallError.BAD_VERSION),
        (Delete("/none"), CallError.NO_NODE),
        (Delete("/full"), CallError.NOT_EMPTY),
        (Delete("/a", version=1), CallError.BAD_VERSION),
        (GetData("/none"), CallError.NO_NODE),
        (GetChildren("/none"), CallError.NO_NODE),
        (Exists("/none"), CallError.NO_NODE),
    ],
)
def test_a_call_that_fails_changes_nothing(two: Two, call: Call, error: CallError) -> None:
    for path in ("/a", "/full", "/full/child"):
        two.call(Create(path, b"old"))
    two.call(Create("/mine", ephemeral=True))
    before = sorted(two.tree.paths())
    assert two.call(call) == Answer(error)
    assert (two.fired, sorted(two.tree.paths()), two.tree.data("/a")) == ([], before, b"old")


def test_a_conditional_write_needs_the_present_version(two: Two) -> None:
    two.call(Create("/isr", b"1,2"))
    assert two.call(SetData("/isr", b"1", version=0)).stat == NodeStat(1, 0, 0, 0)
    assert two.call(SetData("/isr", b"2", version=0), two.other).error is CallError.BAD_VERSION
    assert two.call(SetData("/isr", b"3"), two.other).stat == NodeStat(2, 0, 0, 0)


def test_sequential_nodes_are_numbered_by_all_children_there_ever_were(two: Two) -> None:
    two.call(Create("/queue"))
    assert two.call(Create("/queue/q-", sequential=True)).path == "/queue/q-0000000000"
    two.call(Create("/queue/else"))
    two.call(Delete("/queue/else"))
    assert two.call(Create("/queue/q-", sequential=True)).path == "/queue/q-0000000002"
    assert two.call(GetChildren("/queue")).children == ("q-0000000000", "q-0000000002")
    assert two.call(Exists("/queue")).stat == NodeStat(0, 4, 0, 2)


def test_a_watch_fires_once(two: Two) -> None:
    two.call(Create("/a"))
    two.call(GetData("/a", watch=True))
    two.call(GetData("/a", watch=True), two.other)
    two.call(SetData("/a", b"1"))
    event = WatchFired(ChangeKind.DATA, "/a")
    assert two.fired == [Fired(two.mine, event), Fired(two.other, event)]
    two.call(SetData("/a", b"2"))
    assert two.fired == []


def test_each_watch_hears_of_its_own_kind_of_change(two: Two) -> None:
    two.call(Exists("/a", watch=True))
    two.call(GetData("/b", watch=True))  # there is none: no watch stays
    two.call(Create("/b"))
    assert two.fired == []
    two.call(Create("/a"))
    assert two.fired == [Fired(two.mine, WatchFired(ChangeKind.CREATED, "/a"))]
    two.call(GetChildren("/a", watch=True))
    two.call(SetData("/a", b"1"))
    assert two.fired == []
    two.call(Create("/a/child"))
    assert two.fired == [Fired(two.mine, WatchFired(ChangeKind.CHILDREN, "/a"))]


def test_who_watches_a_node_and_its_children_hears_once_of_its_end_and_then_the_parent_of_the_lack(two: Two) -> None:
    two.call(Create("/a"))
    two.call(GetData("/a", watch=True))
    two.call(GetChildren("/a", watch=True))
    two.call(GetChildren("/a", watch=True), two.other)
    two.call(GetChildren("/", watch=True))
    two.call(Delete("/a"))
    deleted = WatchFired(ChangeKind.DELETED, "/a")
    assert two.fired == [
        Fired(two.mine, deleted),
        Fired(two.other, deleted),
        Fired(two.mine, WatchFired(ChangeKind.CHILDREN, "/")),
    ]


def test_the_end_of_a_session_takes_its_ephemeral_nodes_and_its_watches(two: Two) -> None:
    two.call(Create("/leader", ephemeral=True))
    two.call(GetChildren("/", watch=True))
    two.call(GetData("/leader", watch=True), two.other)
    assert two.tree.end_session(two.mine) == [Fired(two.other, WatchFired(ChangeKind.DELETED, "/leader"))]
    assert not two.tree.has_session(two.mine)
    assert two.tree.watches() == 0
    assert two.call(Create("/leader")).error is CallError.SESSION_EXPIRED
    assert two.tree.data("/leader") is None


def test_a_node_that_another_session_has_made_anew_outlives_the_first_ones_owner(two: Two) -> None:
    two.call(Create("/leader", ephemeral=True))
    two.call(Delete("/leader"), two.other)
    two.call(Create("/leader", ephemeral=True), two.other)
    two.tree.end_session(two.mine)
    assert two.tree.owner("/leader") == two.other


def test_a_lost_connection_takes_the_watches_and_no_node(two: Two) -> None:
    two.call(Create("/mine", ephemeral=True))
    two.call(GetData("/mine", watch=True))
    two.call(GetData("/mine", watch=True), two.other)
    two.tree.drop_watches(two.mine)
    assert (two.tree.watches(two.mine), two.tree.watches(two.other)) == (0, 1)
    assert two.tree.owner("/mine") == two.mine
