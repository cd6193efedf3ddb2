"""The main phase: workers send and read while the nemesis fires its faults; nodes and workers are monitored."""

from __future__ import annotations

import threading
from collections.abc import Callable

from harness.run.phases.context import RunContext
from harness.run.phases.topics import TopicWatch
from harness.run.workers import acked
from nemesis.faults.base import Bounds, NemesisClock, Site
from nemesis.runner import NemesisRunner

TICK_S = 0.25


def main_phase(context: RunContext) -> None:
    """Fire the schedule while the workers run. When this returns or raises, every fault has been undone."""
    runner = NemesisRunner(
        Site.of(context.environment.cluster, NemesisClock(context.clock.now), Bounds().at_pace(context.plan.spec.pace)),
        context.plan.schedule,
        lambda event, details: context.journal.record(event, **details),
        context.recorder("faults"),
        context.progress.log,
        context.plan.spec.lossy_budget,
    )
    start_ns = context.clock.now()
    end_ns = start_ns + int(context.plan.spec.duration * 1e9)
    nemesis = _Thread(lambda stopped: runner.run(start_ns, end_ns, stopped))
    nemesis.start()
    topic = TopicWatch(context)
    try:
        while context.clock.now() < end_ns or nemesis.is_alive():
            context.stop.sleep(TICK_S)
            context.record_lost_workers()
            context.record_lost_nodes(lambda: runner.held_nodes)
            topic.check()
            context.progress.status(acked(context.workers), runner.active)
    finally:
        nemesis.finish()
        context.outcome.fired = runner.fired
        context.outcome.took_hold = runner.took_hold
        for trouble in runner.unhealed:
            context.trouble(trouble)
        for trouble in runner.unmended:
            context.trouble(trouble, "harness")
    if nemesis.error is not None:
        raise nemesis.error


class _Thread(threading.Thread):
    """Runs the nemesis runner; can be asked to finish, and keeps the exception that it raised."""

    def __init__(self, work: Callable[[Callable[[], bool]], None]) -> None:
        super().__init__(name="nemesis")
        self._work = work
        self._stopped = threading.Event()
        self.error: Exception | None = None

    def run(self) -> None:
        """Run the work, and keep an exception for the waiting thread."""
        try:
            self._work(self._stopped.is_set)
        except Exception as error:
            self.error = error

    def finish(self) -> None:
        """Let it heal all faults and end."""
        self._stopped.set()
        self.join()
