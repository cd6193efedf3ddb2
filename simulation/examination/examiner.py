"""The client that examines a cluster: asks one thing at a time, waits for the answer, says what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence

from broker.core.messages import (
    AnyRequest,
    AnyResponse,
    ProducedPartition,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import PartitionState
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.engine.node_views import leading

_TIMEOUT_MS = 10_000
_TRIES = 40
_PAUSE_MS = 250

PASSING = frozenset({
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.OFFSET_NOT_AVAILABLE,
})  # fmt: skip
"""Errors that go by while leaders of new partitions are elected, so that a client asks again."""


_NEW = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
"""Goes by, too, where a topic is new: its leader may not have heard of it yet."""


_OF_A_PROGRAM = re.compile(r"^\(|<\w+[. :]")
"""What a message has that was made of an object of the program, and of no text."""


class WrongAnswer(Exception):
    """What an examined broker answered is not what it had to; `examine` makes a violation of it.

    It is none itself, since the compiled class of violations can have no class under it that is not compiled.
    """


class Examiner:
    """See the module. `property_id` is that of the questions that are being asked."""

    def __init__(self, client_id: int, *, producers_expire: bool) -> None:
        """`producers_expire`: brokers forget idle producers."""
        self.client_id = client_id
        self.producers_expire = producers_expire
        self.property_id = ""
        self._asked = 0
        self._answers: dict[int, AnyResponse | None] = {}

    def timer(self, cluster: SimulatedCluster, key: Hashable) -> None:
        """Ignored: it sets no timers."""

    def answered(self, cluster: SimulatedCluster, request_id: int, response: AnyResponse | None) -> None:
        """Keep an answer until it is taken."""
        self._answers[request_id] = response

    # --- asking ------------------------------------------------------------------------------------------------------

    def send(self, cluster: SimulatedCluster, broker: int, request: AnyRequest) -> int:
        """Send a request, and return the number by which its answer can be taken."""
        self._asked += 1
        cluster.send_from_client(self.client_id, self._asked, broker, request, _TIMEOUT_MS)
        return self._asked

    def take(self, cluster: SimulatedCluster, number: int, about: str) -> AnyResponse:
        """Wait for the answer to a request. Raises `WrongAnswer` if there is none."""
        cluster.run_until(cluster.now_us + 2 * _TIMEOUT_MS * MS, lambda: number in self._answers)
        response = self._answers.pop(number, None)
        if response is None:
            raise self.wrong(about, "no answer", "one within 10 s")
        for text in _messages_in(response):
            if _OF_A_PROGRAM.search(text):
                raise self.wrong(f"{about}, the message of its error", repr(text), "a sentence")
        return response

    def ask(self, cluster: SimulatedCluster, broker: int, request: AnyRequest, about: str = "") -> AnyResponse:
        """Ask a broker, and wait for its answer."""
        name = about or f"{type(request).__name__} to broker {broker}"
        return self.take(cluster, self.send(cluster, broker, request), name)

    def pause(self, cluster: SimulatedCluster) -> None:
        """Let a quarter of a virtual second pass."""
        cluster.run_until(cluster.now_us + _PAUSE_MS * MS)

    # --- judging -----------------------------------------------------------------------------------------------------

    def wrong(self, about: str, found: object, expected: object) -> WrongAnswer:
        """The exception for a wrong answer."""
        return WrongAnswer(f"{about}: expected {expected}, found {found}")

    def expect(self, about: str, found: object, expected: object) -> None:
        """Compare what was answered with what had to be. Raises `WrongAnswer`."""
        if found != expected:
            raise self.wrong(about, found, expected)

    def soon(self, cluster: SimulatedCluster, question: Callable[[], None]) -> None:
        """Ask until the answer is right: for ten virtual seconds, since brokers hear of changes one after the other."""
        for _ in range(_TRIES):
            try:
                question()
            except WrongAnswer:
                self.pause(cluster)
            else:
                return
        question()

    def errors(
        self, cluster: SimulatedCluster, broker: int, about: str, request: AnyRequest, *expected: ErrorCode
    ) -> AnyResponse:
        """Ask for what has to end with these errors, one for each part of the answer; asks again while those go by."""
        wanted = tuple(expected)
        response = self.ask(cluster, broker, request, about)
        for _ in range(_TRIES):
            found = errors_of(response)
            if found == wanted or not PASSING.intersection(found):
                break
            self.pause(cluster)
            response = self.ask(cluster, broker, request, about)
        found = errors_of(response)
        if found != wanted:
            raise self.wrong(f"broker {broker}, {about}", _names(found), _names(wanted))
        return response

    # --- partitions --------------------------------------------------------------------------------------------------

    def state(self, cluster: SimulatedCluster, topic: str, partition: int) -> PartitionState:
        """A partition as the active controller has it, once it has a leader."""
        for _ in range(_TRIES):
            controller = leading(cluster)
            state = controller.image.partition(topic, partition) if controller is not None else None
            if state is not None and state.leader >= 0:
                return state
            self.pause(cluster)
        raise self.wrong(f"{topic}-{partition}", "no leader", "one within 10 s")

    def produce(
        self, cluster: SimulatedCluster, about: str, part: ProducePartition, expected: ErrorCode, acks: int = -1
    ) -> ProducedPartition:
        """Send a batch to the leader of its partition, whose answer has to have this error."""
        for _ in range(_TRIES):
            leader = self.state(cluster, part.topic, part.partition).leader
            response = self.ask(cluster, leader, ProduceRequest(acks, 5_000, (part,)), about)
            assert isinstance(response, ProduceResponse)
            found = response.partitions[0]
            if found.error_code == expected or found.error_code not in (*PASSING, _NEW):
                break
            self.pause(cluster)
        if found.error_code != expected:
            raise self.wrong(about, _names((found.error_code,)), expected.name)
        return found


def errors_of(response: AnyResponse) -> tuple[int, ...]:
    """The error of a response, or those of its parts if it has none of its own."""
    own = getattr(response, "error_code", ErrorCode.NONE)
    if own == ErrorCode.NONE:
        for field in response:
            if isinstance(field, tuple) and field and hasattr(field[0], "error_code"):
                return tuple([getattr(one, "error_code", ErrorCode.NONE) for one in field])
    return (own,)


def _messages_in(part: tuple[object, ...]) -> list[str]:
    """What the errors of a response, or of a part of one, say to people."""
    message = getattr(part, "error_message", None)
    found = [message] if isinstance(message, str) else []
    for field in part:
        if isinstance(field, tuple):
            found += _messages_in(field)
    return found


def _names(errors: Sequence[int]) -> str:
    return ", ".join(ErrorCode(error).name for error in errors) or "no part"
