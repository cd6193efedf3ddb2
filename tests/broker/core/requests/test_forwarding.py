"""What a broker forwards to the controller, attempt by attempt: no attempt outlasts the client's patience (KIP-590)."""

from __future__ import annotations

from typing import TypeVar

import pytest

from broker.core.messages import AnyRequest, CreateTopicsRequest, ElectLeadersRequest, NewTopic
from broker.core.messages.errors import ErrorCode
from broker.core.ports.events import Event, Reply, RequestFailed, RequestReceived, Send, SetTimer, TimerFired
from tests.support.cluster import Cluster

REQUEST_MS, BACKOFF_MS = 300, 100
Kind = TypeVar("Kind")


class Forwarding:
    """A broker that is handed events, and what it does about them."""

    def __init__(self) -> None:
        cluster = Cluster(brokers=1, request_timeout_ms=REQUEST_MS, metadata_retry_backoff_ms=BACKOFF_MS)
        cluster.run_until(lambda: all(machine.node.is_ready() for machine in cluster.machines.values()))
        self.node = cluster.machines[1].node
        self.now_ms = cluster.now_ms

    def the(self, kind: type[Kind], event: Event) -> Kind:
        """The only effect of its kind that follows from an event."""
        (effect,) = [each for each in self.node.handle(self.now_ms, event) if isinstance(each, kind)]
        return effect

    def begin(self, request: AnyRequest) -> Send:
        return self.the(Send, RequestReceived(77, 5, request, 0, "test"))

    def again(self, attempt: Send) -> Send:
        """The next attempt, after one that was not answered in time."""
        self.now_ms += attempt.timeout_ms
        timer = self.the(SetTimer, RequestFailed(attempt.request_id, "timeout"))
        self.now_ms = timer.at_ms
        return self.the(Send, TimerFired(timer.key))


def test_the_last_attempt_ends_with_the_time_of_the_client() -> None:
    broker = Forwarding()
    first = broker.begin(CreateTopicsRequest((NewTopic("new"),), timeout_ms=200))
    assert first.timeout_ms == REQUEST_MS
    last = broker.again(first)
    assert last.timeout_ms == 200 + REQUEST_MS - REQUEST_MS - BACKOFF_MS
    broker.now_ms += last.timeout_ms
    answer = broker.the(Reply, RequestFailed(last.request_id, "timeout")).response
    assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_ur_14_an_election_waits_in_the_controller_as_long_as_the_client_does_and_no_longer() -> None:
    broker = Forwarding()
    first = broker.begin(ElectLeadersRequest(1, None, timeout_ms=200))
    assert isinstance(first.request, ElectLeadersRequest)
    assert first.request.timeout_ms == 200
    last = broker.again(first)
    assert isinstance(last.request, ElectLeadersRequest)
    assert last.request.timeout_ms == last.timeout_ms == 100


@pytest.mark.parametrize("timeout_ms", [-REQUEST_MS, -(1 << 31)])
def test_a_client_that_waits_for_less_than_nothing_has_one_attempt(timeout_ms: int) -> None:
    broker = Forwarding()
    attempt = broker.begin(CreateTopicsRequest((NewTopic("new"),), timeout_ms=timeout_ms))
    assert attempt.timeout_ms == 1
    broker.now_ms += 1
    answer = broker.the(Reply, RequestFailed(attempt.request_id, "timeout")).response
    assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
