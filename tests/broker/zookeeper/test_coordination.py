"""The port on kazoo where no server is needed: no call stays without an answer, and none has two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from broker.core.ports.coordination import (
    Answer,
    CallError,
    Coordinate,
    Coordinated,
    CoordinationEvent,
    Delete,
    OpenSession,
    SessionState,
)

pytest.importorskip("kazoo")

NOWHERE = "127.0.0.1:1"


class Never:
    """A call that kazoo has taken, and completes when the test says so."""

    def __init__(self) -> None:
        self.complete: Callable[[object], None] = lambda _: None

    def rawlink(self, callback: Callable[[object], None]) -> None:
        self.complete = callback


@pytest.fixture
def posted() -> list[CoordinationEvent]:
    return []


@pytest.fixture
def taken(posted: list[CoordinationEvent], monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[object, Never]]:
    """A session that is open, as far as it knows, in which call 7 is open."""
    from broker.shell.coordination import KazooCoordination

    coordination, call = KazooCoordination(NOWHERE, posted.append), Never()
    coordination.open(OpenSession(4_000))
    session = coordination._session
    monkeypatch.setattr(session, "_state", SessionState.OPEN)
    monkeypatch.setattr(session, "_begun", lambda _: call)
    coordination.coordinate(Coordinate(7, Delete("/t")))
    yield coordination, call
    coordination.close()


def test_a_call_that_is_open_when_its_session_is_replaced_fails(taken, posted) -> None:
    coordination, call = taken
    assert posted == []
    coordination.close()
    assert posted == [Coordinated(7, Answer(CallError.SESSION_EXPIRED))]
    call.complete(SimpleNamespace(exception=None, value=True))
    assert len(posted) == 1


def test_a_call_that_was_answered_does_not_fail_with_its_session(taken, posted) -> None:
    coordination, call = taken
    call.complete(SimpleNamespace(exception=None, value=True))
    coordination.close()
    assert posted == [Coordinated(7, Answer())]


def test_a_call_without_a_connection_fails_at_once(posted) -> None:
    from broker.shell.coordination import KazooCoordination

    coordination = KazooCoordination(NOWHERE, posted.append)
    coordination.coordinate(Coordinate(1, Delete("/t")))
    coordination.open(OpenSession(4_000))
    coordination.coordinate(Coordinate(2, Delete("/t")))
    coordination.close()
    assert posted == [
        Coordinated(1, Answer(CallError.SESSION_EXPIRED)),
        Coordinated(2, Answer(CallError.CONNECTION_LOSS)),
    ]
