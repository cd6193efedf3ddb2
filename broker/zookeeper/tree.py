"""ZooKeeper's tree of nodes in memory: sessions, ephemeral and sequential nodes, versions, one-shot watches.

It is pure: every call returns what watches it has fired, and knows no time. `simulation.zookeeper.ensemble` adds delays
and the expiry of sessions; a test holds it against real ensembles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.core.ports.coordination import (
    ANY_VERSION,
    NO_SESSION,
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

ROOT = "/"


class Fired(NamedTuple):
    """A watch that a change has fired, and the session that had set it."""

    session: int
    event: WatchFired


@dataclass(slots=True)
class _Node:
    data: bytes
    owner: int = NO_SESSION
    version: int = 0
    children_version: int = 0
    created_children: int = 0
    """Counts the children that ever were, and so numbers the sequential ones, whatever their kind."""

    children: dict[str, None] = field(default_factory=dict)

    @property
    def stat(self) -> NodeStat:
        return NodeStat(self.version, self.children_version, self.owner, len(self.children))


class ZooKeeperTree:
    """The tree. Sessions are numbers from 1 on, opened with `open_session`."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {ROOT: _Node(b"")}
        self._sessions: dict[int, dict[str, None]] = {}  # session -> paths of its ephemeral nodes
        self._data_watches: dict[str, dict[int, None]] = {}
        self._child_watches: dict[str, dict[int, None]] = {}
        self._last_session = 0

    # --- sessions ----------------------------------------------------------------------------------------------------

    def open_session(self) -> int:
        """Begin a session; its id."""
        self._last_session += 1
        self._sessions[self._last_session] = {}
        return self._last_session

    def has_session(self, session: int) -> bool:
        """Whether it has not ended."""
        return session in self._sessions

    def end_session(self, session: int) -> list[Fired]:
        """End a session: its watches go, then its ephemeral nodes, in the order of their creation."""
        ephemeral = self._sessions.pop(session, {})
        self.drop_watches(session)
        return [fired for path in list(ephemeral) for fired in self._remove(path)]

    def drop_watches(self, session: int) -> None:
        """The connection of a session is lost, and with it its watches."""
        for watches in (self._data_watches, self._child_watches):
            for path in [path for path, sessions in watches.items() if session in sessions]:
                del watches[path][session]
                if not watches[path]:
                    del watches[path]

    # --- calls -------------------------------------------------------------------------------------------------------

    def call(self, session: int, call: Call) -> tuple[Answer, list[Fired]]:
        """Make a call in a session: the answer, and the watches fired, of which its own arrive before the answer."""
        if session not in self._sessions:
            return Answer(CallError.SESSION_EXPIRED), []
        match call:
            case Create():
                return self._create(session, call)
            case SetData():
                return self._set_data(call)
            case Delete():
                return self._delete(call)
            case _:
                return self._read(session, call), []

    def _create(self, session: int, call: Create) -> tuple[Answer, list[Fired]]:
        parent_path, name = split(call.path)
        parent = self._nodes.get(parent_path)
        if parent is None:
            return Answer(CallError.NO_NODE), []
        if call.sequential:
            name = f"{name}{parent.created_children:010d}"
        path = join(parent_path, name)
        if parent.owner != NO_SESSION:
            return Answer(CallError.EPHEMERAL_PARENT), []
        if path in self._nodes:
            return Answer(CallError.NODE_EXISTS), []
        self._nodes[path] = _Node(call.data, session if call.ephemeral else NO_SESSION)
        if call.ephemeral:
            self._sessions[session][path] = None
        parent.children[name] = None
        parent.created_children += 1
        parent.children_version += 1
        fired = self._fire(self._data_watches, path, ChangeKind.CREATED)
        return Answer(path=path), fired + self._fire(self._child_watches, parent_path, ChangeKind.CHILDREN)

    def _set_data(self, call: SetData) -> tuple[Answer, list[Fired]]:
        node = self._nodes.get(call.path)
        if node is None:
            return Answer(CallError.NO_NODE), []
        if call.version not in (ANY_VERSION, node.version):
            return Answer(CallError.BAD_VERSION), []
        node.data = call.data
        node.version += 1
        return Answer(stat=node.stat), self._fire(self._data_watches, call.path, ChangeKind.DATA)

    def _delete(self, call: Delete) -> tuple[Answer, list[Fired]]:
        node = self._nodes.get(call.path)
        if node is None:
            return Answer(CallError.NO_NODE), []
        if call.version not in (ANY_VERSION, node.version):
            return Answer(CallError.BAD_VERSION), []
        if node.children:
            return Answer(CallError.NOT_EMPTY), []
        return Answer(), self._remove(call.path)

    def _read(self, session: int, call: GetData | GetChildren | Exists) -> Answer:
        node = self._nodes.get(call.path)
        if call.watch and (node is not None or isinstance(call, Exists)):
            watches = self._child_watches if isinstance(call, GetChildren) else self._data_watches
            watches.setdefault(call.path, {})[session] = None
        if node is None:
            return Answer(CallError.NO_NODE)
        match call:
            case GetData():
                return Answer(data=node.data, stat=node.stat)
            case GetChildren():
                return Answer(children=tuple(sorted(node.children)), stat=node.stat)
            case Exists():
                return Answer(stat=node.stat)

    # --- changes -----------------------------------------------------------------------------------------------------

    def _remove(self, path: str) -> list[Fired]:
        node = self._nodes.pop(path)
        if node.owner in self._sessions:
            del self._sessions[node.owner][path]
        parent_path, name = split(path)
        parent = self._nodes[parent_path]
        del parent.children[name]
        parent.children_version += 1
        fired = self._fire(self._data_watches, path, ChangeKind.DELETED)
        heard = {one.session for one in fired}
        fired += [
            one
            for one in self._fire(self._child_watches, path, ChangeKind.DELETED)
            if one.session not in heard  # a session hears once that a node is gone
        ]
        return fired + self._fire(self._child_watches, parent_path, ChangeKind.CHILDREN)

    @staticmethod
    def _fire(watches: dict[str, dict[int, None]], path: str, kind: ChangeKind) -> list[Fired]:
        return [Fired(session, WatchFired(kind, path)) for session in watches.pop(path, {})]

    # --- for observers -----------------------------------------------------------------------------------------------

    def data(self, path: str) -> bytes | None:
        """A node's data, as no session sees it; None if there is no node."""
        node = self._nodes.get(path)
        return None if node is None else node.data

    def children(self, path: str) -> tuple[str, ...]:
        """Names of a node's children, sorted; none if there is no node."""
        node = self._nodes.get(path)
        return () if node is None else tuple(sorted(node.children))

    def owner(self, path: str) -> int:
        """The session of an ephemeral node; `NO_SESSION` for others and where there is none."""
        node = self._nodes.get(path)
        return NO_SESSION if node is None else node.owner

    def watches(self, session: int | None = None) -> int:
        """How many watches are set, by one session or by all."""
        return sum(
            len(sessions) if session is None else session in sessions
            for watches in (self._data_watches, self._child_watches)
            for sessions in watches.values()
        )

    def watched(self) -> Iterator[tuple[str, int]]:
        """The watched paths, and by how many sessions; a path twice if its data and its children are watched."""
        for watches in (self._data_watches, self._child_watches):
            for path, sessions in watches.items():
                yield path, len(sessions)

    def paths(self) -> Iterator[str]:
        """All nodes."""
        return iter(self._nodes)


def split(path: str) -> tuple[str, str]:
    """A node's parent and its name."""
    parent, _, name = path.rpartition("/")
    return parent or ROOT, name


def join(parent: str, name: str) -> str:
    """A child's path."""
    return f"/{name}" if parent == ROOT else f"{parent}/{name}"
