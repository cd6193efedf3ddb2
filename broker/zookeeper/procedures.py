"""Runs procedures that wait: generators that yield what they wait for, in a core without threads.

A procedure of the designs reads like the pseudo-code: it yields a call to ZooKeeper, a request to another broker, a
pause or a condition, and goes on with the answer. Each has a name; to start another of that name ends the first.
A call that the loss of the connection or of the session has left uncertain is made again as soon as there is a session,
as the client library of the time did ("retry until connected"); a leader that was deposed meanwhile makes it too.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from broker.core.messages import AnyRequest, AnyResponse
from broker.core.ports.coordination import (
    UNCERTAIN,
    Answer,
    Call,
    Coordinate,
)
from broker.core.ports.runtime import Runtime

T = TypeVar("T")

TIMER = "procedure"
"""The first part of the keys of the procedures' timers."""

PURPOSE = "procedure"
"""The purpose of the procedures' requests."""


class Sleep(NamedTuple):
    """Go on after a time."""

    ms: int


class Until(NamedTuple):
    """Go on once this holds (True), or after a time (False)."""

    holds: Callable[[], bool]
    at_most_ms: int


class Ask(NamedTuple):
    """Send another broker a request; go on with the response, None if there is none."""

    to: int
    request: AnyRequest
    timeout_ms: int


Step = Call | Sleep | Until | Ask
Steps = Generator[Step, Any, T]
"""A procedure, which returns T."""


@dataclass(slots=True)
class _Running:
    name: Hashable
    number: int
    steps: Steps[None]
    waits_for: Step | None = None
    taken: int = 0
    """Steps so far: tells the timer of this step from one that was late."""

    is_executing: bool = False

    @property
    def timer(self) -> tuple[str, int, int]:
        """The key of the timer of the present step."""
        return TIMER, self.number, self.taken


class Procedures:
    """The procedures of one node that run."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._running: dict[Hashable, _Running] = {}
        self._by_number: dict[int, _Running] = {}
        self._conditions: dict[int, _Running] = {}  # those that wait for a condition
        self._calls: dict[int, _Running] = {}  # call id -> who made it
        self._stranded: dict[int, _Running] = {}  # calls to be made once there is a session again
        self._next = 1
        self._is_connected = False

    def start(self, name: Hashable, steps: Steps[None]) -> None:
        """Run a procedure until it waits. A running one of this name ends."""
        self.cancel(name)
        self._next += 1
        running = self._running[name] = _Running(name, self._next, steps)
        self._by_number[running.number] = running
        self._go_on(running, None)

    def cancel(self, name: Hashable) -> None:
        """End a procedure, if one of this name runs; what it waits for is ignored."""
        running = self._running.get(name)
        if running is not None:
            self._forget(running)
            if not running.is_executing:
                running.steps.close()

    def runs(self, name: Hashable) -> bool:
        """Whether a procedure of this name has not ended."""
        return name in self._running

    # --- what they wait for ------------------------------------------------------------------------------------------

    def connected(self) -> None:
        """There is a session: make the calls that were left, in the order in which they came to be."""
        self._is_connected = True
        stranded, self._stranded = self._stranded, {}
        for running in stranded.values():
            self._call(running)

    def disconnected(self) -> None:
        """The session is suspended or has ended."""
        self._is_connected = False

    def answered(self, call_id: int, answer: Answer) -> None:
        """The answer to a `Coordinate`."""
        running = self._calls.pop(call_id, None)
        if running is None:
            return
        if answer.error not in UNCERTAIN:
            self._go_on(running, answer)
        elif self._is_connected:
            self._call(running)
        else:
            self._stranded[running.number] = running

    def responded(self, number: int, response: AnyResponse | None) -> None:
        """The response to a request of procedure `number`, if it still waits for that."""
        running = self._by_number.get(number)
        if running is not None and isinstance(running.waits_for, Ask):
            self._go_on(running, response)

    def fired(self, number: int, step: int) -> None:
        """The timer of a step of procedure `number`; one that is late is ignored."""
        running = self._by_number.get(number)
        if running is not None and running.taken == step:
            condition = running.waits_for
            self._go_on(running, condition.holds() if isinstance(condition, Until) else None)

    def recheck(self) -> None:
        """Let those go on whose condition holds by now; called after every event."""
        for running in list(self._conditions.values()):
            condition = running.waits_for
            if running.number in self._conditions and isinstance(condition, Until) and condition.holds():
                self._runtime.cancel_timer(running.timer)
                self._go_on(running, True)

    # --- steps -------------------------------------------------------------------------------------------------------

    def _go_on(self, running: _Running, value: object) -> None:
        self._conditions.pop(running.number, None)
        while True:
            running.is_executing = True
            try:
                step = running.steps.send(value)
            except StopIteration:
                if running.number in self._by_number:
                    self._forget(running)
                return
            finally:
                running.is_executing = False
            running.taken += 1
            if running.number not in self._by_number:
                running.steps.close()  # it has ended itself, by what it started or cancelled
                return
            if not isinstance(step, Until) or not step.holds():
                break
            value = True
        running.waits_for = step
        match step:
            case Sleep(ms):
                self._runtime.set_timer(running.timer, ms)
            case Until(_, at_most_ms):
                self._conditions[running.number] = running
                self._runtime.set_timer(running.timer, at_most_ms)
            case Ask(to, request, timeout_ms):
                context = running.number
                self._runtime.send(
                    to, request, channel="control", timeout_ms=timeout_ms, purpose=PURPOSE, context=context
                )
            case _:
                self._call(running)

    def _call(self, running: _Running) -> None:
        if not self._is_connected:
            self._stranded[running.number] = running
            return
        call = running.waits_for
        assert call is not None
        assert not isinstance(call, Sleep | Until | Ask)
        self._next += 1
        self._calls[self._next] = running
        self._runtime.effects.append(Coordinate(self._next, call))

    def _forget(self, running: _Running) -> None:
        del self._running[running.name]
        del self._by_number[running.number]
        self._conditions.pop(running.number, None)
        self._stranded.pop(running.number, None)
        for call_id in [call_id for call_id, one in self._calls.items() if one is running]:
            del self._calls[call_id]
        if isinstance(running.waits_for, Sleep | Until):
            self._runtime.cancel_timer(running.timer)
