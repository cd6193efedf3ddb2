"""Runs of real clusters of this machine's processes, performed in this process."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial

from rich.console import Console

from harness.environments import factory
from harness.environments.base import Environment
from harness.run import runner
from harness.run.context import Plan
from harness.run.stopping import Stop
from harness.store.journal import Journal
from harness.systems.own.harrow_broker import HarrowBroker
from harness.terminal.console import RunProgress


def perform(plan: Plan, system: HarrowBroker, make: Callable[[Journal], Environment] | None = None) -> None:
    """Carry a plan out from set-up to tear-down; the history is left to be judged. Raises what the runner raises.

    `make` makes another environment than the plan's.
    """
    own = partial(factory.make, plan.spec, frozenset(), plan.directory, system)
    with RunProgress(Console(file=io.StringIO())) as progress:
        runner.run(plan, system, make or own, progress, Stop())
