"""Final: every reader reads everything from the start, and the replicas' logs are written down."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from harness.run.final_logs import dump_logs
from harness.run.health import End, by_topic
from harness.run.phases.stage import Stage
from harness.run.stopping import Interrupted
from harness.run.workers import acked

READ_S = 130.0
"""A little more than the workers' own bound, so that they can say what is missing."""


def read_all(stage: Stage, ends: Sequence[End]) -> None:
    """Have the workers read up to these ends, and dump the logs of all replicas."""
    if ends:
        with stage.going_on():
            _read(stage, ends)
    stage.stop_workers()
    with stage.going_on():
        dump_logs(stage.system, stage.environment.plans, stage.adder("logs"), lambda: _go_on(stage))


def _read(stage: Stage, ends: Sequence[End]) -> None:
    stage.tell_workers(f"final {json.dumps(by_topic(ends))}")
    reported = stage.all_report("final")

    def read() -> bool:
        stage.progress.status(acked(stage.workers), ())
        return reported()

    if not stage.until(read, READ_S):
        stage.trouble(f"the final reads did not end within {stage.paced(READ_S):g} s")
        return
    missing = [item for worker in stage.workers for item in (worker.latest("final") or {}).get("missing", ())]
    for item in missing:
        stage.trouble(_unread(item))


def _unread(item: Mapping[str, object]) -> str:
    name = f"{item['topic']}-{item['partition']}"
    if item["position"] is None:
        return f"process {item['process']} was given no end for {name}"
    return f"process {item['process']} read {name} to {item['position']}, its end is {item['end']}"


def _go_on(stage: Stage) -> None:
    if stage.stop.requested:
        raise Interrupted
