"""Stores the run of a directed schedule: its trace, its history, and the files that the report needs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from simulation.directed.files import name_of
from simulation.directed.runner import ScheduleResult, play_schedule
from simulation.runs import stored
from simulation.runs.trace import Line, TraceRecorder, trace_lines
from simulation.workload import tables
from simulation.workload.sampling import ReplicaSampler

_STEP = "step "

NAME = "schedule"
"""The name of such runs in the store."""


def store(directory: Path, path: Path, *, flawed: bool) -> ScheduleResult:
    """Play a schedule and write its run into an empty directory. Raises `ScheduleError`."""
    recorder, sampler = TraceRecorder(), ReplicaSampler()
    result = play_schedule(path, flawed=flawed, keep_log=True, recorders=(recorder, sampler))
    outcome, run_id = result.outcome, directory.name
    configuration = outcome.configuration.to_json()
    kept = ("generation", "flaws", "brokers", "partitions", "replication_factor", "min_insync_replicas", "acks")
    specification = {
        "name": NAME,
        "title": result.schedule.title,
        "story": result.schedule.story,
        "environment": "simulation",
        "seed": 0,
        **{key: configuration[key] for key in kept},
        "idempotence": False,
        "reproduce": shlex.join(["harrow", "sim", "--schedule", name_of(path)]),
        "configuration": configuration,
    }
    lines = _from_first_step(stored.relevant(trace_lines(recorder, outcome.history, outcome.log_entries)))
    for name, data in (
        ("spec.json", specification),
        ("schedule.json", []),
        ("story.json", [line._asdict() for line in lines]),
        ("outcome.json", {"hash": outcome.digest, "findings": [finding._asdict() for finding in result.findings]}),
    ):
        (directory / name).write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    tables.write(directory, "0", [tables.Recorded(run_id, NAME, outcome, sampler.samples)])
    stored.write_results(directory, run_id, result.findings)
    return result


def _from_first_step(lines: Sequence[Line]) -> Sequence[Line]:
    """The trace from the first step on, without the set-up."""
    first = next((place for place, line in enumerate(lines) if line.text.startswith(_STEP)), 0)
    return lines[first:]
