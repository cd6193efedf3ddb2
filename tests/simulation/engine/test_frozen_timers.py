"""A process that was frozen handles what piled up, and timers that it replaces or cancels meanwhile do not fire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from broker.core.ports.events import CancelTimer, Effect, Event, SetTimer, StopRequested, TimerFired
from simulation.engine.choices import ChoiceSequence
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.scenario.configuration import Configuration
from simulation.scenario.scenario import settings_of


class Process:
    """A node that sets a timer at first, and then does what is asked of it; it remembers when timers fired."""

    def __init__(self, *then: Effect) -> None:
        self._effects: list[Sequence[Effect]] = [then, (SetTimer("alarm", 100),)]
        self.fired_at_ms: list[int] = []

    def handle(self, now_ms: int, event: Event) -> Sequence[Effect]:
        if isinstance(event, TimerFired):
            self.fired_at_ms.append(now_ms)
            return ()
        return self._effects.pop()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def fired(*then: Effect, at_ms: int) -> list[int]:
    """When the timer of 100 ms fires in a process that is frozen until 200, and is asked for something at a time."""
    cluster = SimulatedCluster(ChoiceSequence(0), settings_of(Configuration()))
    machine = cluster.machines[1]
    process = Process(*then)
    machine.node = process  # type: ignore[assignment]
    cluster.deliver(1, machine.incarnation, StopRequested())
    cluster.pause(1)
    cluster.after(at_ms * MS, cluster.deliver, 1, machine.incarnation, StopRequested())
    cluster.after(200 * MS, cluster.resume, 1)
    cluster.run_until(1_000 * MS)
    return process.fired_at_ms


@pytest.mark.parametrize("at_ms", [50, 150])
def test_a_timer_that_was_due_fires_when_its_process_goes_on(at_ms: int) -> None:
    assert fired(at_ms=at_ms) == [200]


def test_a_timer_that_is_replaced_by_an_earlier_event_fires_anew_only() -> None:
    assert fired(SetTimer("alarm", 500), at_ms=50) == [500]


def test_a_timer_that_is_cancelled_by_an_earlier_event_does_not_fire() -> None:
    assert fired(CancelTimer("alarm"), at_ms=50) == []


def test_a_timer_that_is_set_again_by_a_later_event_fires_twice() -> None:
    assert fired(SetTimer("alarm", 500), at_ms=150) == [200, 500]
