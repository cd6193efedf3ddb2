"""A fetch session that its broker does not go on with, or where its fetcher does not, breaks P-45."""

from __future__ import annotations

import pytest

from broker.core.broker_node.requests import fetch_sessions, fetching
from broker.core.messages import FetchRequest, FetchResponse
from broker.core.messages.errors import ErrorCode
from simulation.invariants.answers import sessions
from simulation.invariants.answers.of_leaders import _check_session
from simulation.invariants.knowledge import BrokerMirror
from simulation.invariants.properties import Violation
from simulation.runs.sweep import simulate
from simulation.scenario.configuration import SimulatedFault
from tests.simulation.invariants.planting import broken_by, observe

REFUSED = FetchResponse((), ErrorCode.INVALID_FETCH_SESSION_EPOCH)


def fetch(broker: BrokerMirror, request_id: int, epoch: int) -> None:
    """A request of session 7 arrives."""
    broker.asked[request_id] = FetchRequest((), session_id=7 if epoch else 0, session_epoch=epoch)
    sessions.asked(broker, request_id, broker.asked[request_id])


def begun() -> BrokerMirror:
    broker = BrokerMirror(1)
    fetch(broker, 1, 0)
    sessions.answered(broker, 1, FetchResponse((), 0, session_id=7))
    return broker


def test_sessions_that_a_leader_does_not_go_on_with_break_p_45(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = fetch_sessions.open_fetch

    def stands_still(*asked: object) -> object:
        found = honest(*asked)  # type: ignore[arg-type]
        if isinstance(found, fetch_sessions.Fetch) and found.session is not None:
            found.session.epoch = 1
        return found

    monkeypatch.setattr(fetching.fetch_sessions, "open_fetch", stands_still)
    assert observe().failed_property == "P-45"


def test_sessions_that_a_leader_goes_on_with_whatever_is_asked_break_p_45(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = fetch_sessions.open_fetch

    def obliging(found: fetch_sessions.FetchSessions, request: FetchRequest, *asked: object) -> object:
        session = found.sessions.get(request.session_id)
        if session is not None and request.session_epoch > 0:
            request = request._replace(session_epoch=session.epoch)
        return honest(found, request, *asked)  # type: ignore[arg-type]

    monkeypatch.setattr(fetching.fetch_sessions, "open_fetch", obliging)
    assert simulate(1, {"search": "mixed"}, observed=True).findings[0].property_id == "P-45"


def test_sessions_that_end_with_their_broker_break_nothing() -> None:
    assert observe(faults=[SimulatedFault(4_000, "kill", 6, 5_000, 0)]).failure is None


@pytest.mark.parametrize("epoch", [1, 2])
def test_the_next_epoch_is_not_to_be_refused(epoch: int) -> None:
    broker = begun()
    for earlier in range(1, epoch):
        fetch(broker, 10 + earlier, earlier)
        sessions.answered(broker, 10 + earlier, FetchResponse((), 0, session_id=7))
    fetch(broker, 2, epoch)
    with pytest.raises(Violation, match="P-45"):
        sessions.answered(broker, 2, REFUSED)


@pytest.mark.parametrize("epoch", [2, 5])
def test_another_epoch_may_be_refused(epoch: int) -> None:
    broker = begun()
    fetch(broker, 2, epoch)
    sessions.answered(broker, 2, REFUSED)


def test_a_fetch_that_is_repeated_while_it_waits_may_be_refused() -> None:
    broker = begun()
    fetch(broker, 2, 1)
    fetch(broker, 3, 1)
    sessions.answered(broker, 3, REFUSED)
    sessions.answered(broker, 2, FetchResponse((), 0, session_id=7))


def test_a_session_that_is_gone_may_be_refused() -> None:
    broker = begun()
    fetch(broker, 2, 1)
    sessions.answered(broker, 2, FetchResponse((), ErrorCode.FETCH_SESSION_ID_NOT_FOUND))


@pytest.mark.parametrize("epoch", [2, 5])
def test_another_epoch_is_not_to_be_served(epoch: int) -> None:
    broker = begun()
    fetch(broker, 2, epoch)
    with pytest.raises(Violation, match="P-45"):
        sessions.answered(broker, 2, FetchResponse((), 0, session_id=7))


@pytest.mark.parametrize(
    ("session_id", "epoch", "breaks"), [(7, 3, None), (0, 0, "P-45"), (7, 2, "P-45"), (8, 3, "P-45")]
)
def test_a_follower_goes_on_in_the_session_that_its_leader_has_accepted(
    session_id: int, epoch: int, breaks: str | None
) -> None:
    follower = BrokerMirror(1, sessions_accepted={2: (7, 2)})
    request = FetchRequest((), session_id=session_id, session_epoch=epoch)
    assert broken_by(lambda: _check_session(follower, 2, request)) == breaks
