"""The final phase: every reader reads all partitions from the start, and the replicas' logs are dumped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from harness.run.final_logs import dump_logs
from harness.run.health import ReportedEnd, by_topic
from harness.run.phases.context import RunContext
from harness.run.stopping import Interrupted
from harness.run.workers import acked

READ_S = 130.0
"""A little more than the workers' own limit, so that they can report what is missing."""


def read_all(context: RunContext, ends: Sequence[ReportedEnd]) -> None:
    """Let the workers read up to these ends, then dump the logs of all replicas."""
    if ends:
        with context.recording_errors():
            _read(context, ends)
    context.stop_workers()
    with context.recording_errors():
        dump_logs(context.system, context.environment.plans, context.recorder("logs"), lambda: _check_stop(context))


def _read(context: RunContext, ends: Sequence[ReportedEnd]) -> None:
    context.command_workers(f"final {json.dumps(by_topic(ends))}")
    reported = context.all_reported("final")

    def read() -> bool:
        context.progress.status(acked(context.workers), ())
        return reported()

    if not context.until(read, READ_S):
        context.trouble(f"the final reads did not end within {context.scaled(READ_S):g} s")
        return
    missing = [item for worker in context.workers for item in (worker.latest("final") or {}).get("missing", ())]
    for item in missing:
        context.trouble(_unread(item))


def _unread(item: Mapping[str, object]) -> str:
    name = f"{item['topic']}-{item['partition']}"
    if item["position"] is None:
        return f"process {item['process']} got no end offset for {name}"
    return f"process {item['process']} read {name} up to {item['position']}, its end is {item['end']}"


def _check_stop(context: RunContext) -> None:
    if context.stop.requested:
        raise Interrupted
