"""The main phase: workers work and the nemesis fires its faults, while nodes and workers are watched."""

from __future__ import annotations

import threading
from collections.abc import Callable

from harness.run.phases.stage import Stage
from harness.run.phases.topics import TopicWatch
from harness.run.workers import acked
from nemesis.clock import RealClock
from nemesis.faults.base import Bounds, Site
from nemesis.runner import NemesisRunner

TICK_S = 0.25


def main_phase(stage: Stage) -> None:
    """Fire the schedule while the workers work. When it returns, or raises, every fault has been undone."""
    conductor = NemesisRunner(
        Site.of(stage.environment.cluster, RealClock(stage.clock.now), Bounds().at_pace(stage.plan.spec.pace)),
        stage.plan.schedule,
        lambda event, details: stage.journal.record(event, **details),
        stage.adder("faults"),
        stage.progress.note,
        stage.plan.spec.lossy_budget,
    )
    start_ns = stage.clock.now()
    end_ns = start_ns + int(stage.plan.spec.duration * 1e9)
    nemesis = _Thread(lambda unwanted: conductor.run(start_ns, end_ns, unwanted))
    nemesis.start()
    topic = TopicWatch(stage)
    try:
        while stage.clock.now() < end_ns or nemesis.is_alive():
            stage.stop.rest(TICK_S)
            stage.note_lost_workers()
            stage.note_lost_nodes(lambda: conductor.held_nodes)
            topic.look()
            stage.progress.status(acked(stage.workers), conductor.active)
    finally:
        nemesis.finish()
        stage.outcome.fired = conductor.fired
        stage.outcome.took_hold = conductor.took_hold
        for trouble in conductor.unhealed:
            stage.trouble(trouble)
        for trouble in conductor.unmended:
            stage.trouble(trouble, "harness")
    if nemesis.error is not None:
        raise nemesis.error


class _Thread(threading.Thread):
    """Runs the conductor; knows whether it is still wanted, and what it raised."""

    def __init__(self, work: Callable[[Callable[[], bool]], None]) -> None:
        super().__init__(name="nemesis")
        self._work = work
        self._unwanted = threading.Event()
        self.error: Exception | None = None

    def run(self) -> None:
        """Work, and keep what is raised for the thread that waits."""
        try:
            self._work(self._unwanted.is_set)
        except Exception as error:
            self.error = error

    def finish(self) -> None:
        """Have it heal everything and end."""
        self._unwanted.set()
        self.join()
