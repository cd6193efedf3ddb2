"""ZooKeeper as a port of the core: calls and their answers, one-shot watches, and what becomes of a session.

A node asks by effects (`OpenSession`, `Coordinate`) and hears by events (`SessionChanged`, `Coordinated`,
`WatchFired`). What the other side promises, and no more (description of the ZooKeeper designs):

- calls of a session take effect, and are answered, in the order in which they were made;
- events of a session's watches and the answers to its calls arrive in one order, that of the changes, so that a node
  never sees a new value before the event of the watch that it had set on the old one;
- a watch fires once; several changes between the event and the next read show as one; a lost connection takes all
  watches of the session, without an event for any of them;
- the server ends a session that it has not heard of for the session's timeout. Its ephemeral nodes and watches go then.
  The node hears of it only when it can reach the server again; until then it is a *zombie*, whose calls fail with
  `CONNECTION_LOSS` and whose data path nothing stops.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

ANY_VERSION = -1
"""The expected version of a write that is not conditional."""

NO_SESSION = 0
"""The owner of a node that is not ephemeral."""


class Create(NamedTuple):
    """Create a node. A `sequential` one gets a number of ten digits behind its path, counted by its parent."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


class SetData(NamedTuple):
    """Replace a node's data, if it has this version."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Delete a node without children, if it has this version."""

    path: str
    version: int = ANY_VERSION


class GetData(NamedTuple):
    """Read a node's data; with `watch`, hear once of its next change or deletion."""

    path: str
    watch: bool = False


class GetChildren(NamedTuple):
    """List a node's children; with `watch`, hear once of the next that comes or goes, or of the node's deletion."""

    path: str
    watch: bool = False


class Exists(NamedTuple):
    """Ask for a node; with `watch`, hear once of its creation, next change or deletion."""

    path: str
    watch: bool = False


Call = Create | SetData | Delete | GetData | GetChildren | Exists


class CallError(StrEnum):
    """Why a call failed. After the last two it may have taken effect or not."""

    NO_NODE = "no node"
    NODE_EXISTS = "node exists"
    BAD_VERSION = "bad version"
    NOT_EMPTY = "not empty"
    EPHEMERAL_PARENT = "no children for ephemerals"
    CONNECTION_LOSS = "connection loss"
    SESSION_EXPIRED = "session expired"


UNCERTAIN = (CallError.CONNECTION_LOSS, CallError.SESSION_EXPIRED)


class NodeStat(NamedTuple):
    """What is known of a node beside its data. `owner` is the session of an ephemeral one."""

    version: int
    children_version: int
    owner: int
    children: int


class Answer(NamedTuple):
    """The answer to a call: its error, or what it asked for. `path` is that of a created node."""

    error: CallError | None = None
    path: str = ""
    data: bytes = b""
    children: tuple[str, ...] = ()
    """Names, not paths, sorted."""

    stat: NodeStat | None = None


class ChangeKind(StrEnum):
    """What a watch reports of the node at its path."""

    CREATED = "created"
    DELETED = "deleted"
    DATA = "data"
    CHILDREN = "children"


class WatchFired(NamedTuple):
    """A watch has fired, and is gone."""

    kind: ChangeKind
    path: str


class SessionState(StrEnum):
    """What a node knows of its session."""

    OPEN = "open"
    """There is a new one."""

    SUSPENDED = "suspended"
    """The connection is lost; open calls have failed."""

    RESTORED = "restored"
    """The connection is back, in time: ephemeral nodes are as they were, and all watches are gone."""

    EXPIRED = "expired"
    """The server has ended it; the node may open another."""


class SessionChanged(NamedTuple):
    """The session's state has changed. `session` is its id."""

    state: SessionState
    session: int


class Coordinated(NamedTuple):
    """The answer to the `Coordinate` of this id."""

    call_id: int
    answer: Answer


class OpenSession(NamedTuple):
    """Begin a session; it replaces an earlier one of this process, which must have ended."""

    timeout_ms: int


class Coordinate(NamedTuple):
    """Make a call in the present session; answered once, with `SESSION_EXPIRED` if there is none."""

    call_id: int
    call: Call


CoordinationEvent = SessionChanged | Coordinated | WatchFired
CoordinationEffect = OpenSession | Coordinate
