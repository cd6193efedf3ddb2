"""The phases of a run, in order: set-up, main phase, recovery, final reads.

Set-up starts the nodes, creates the topic and connects the workers. In the main phase the workers send and read while
the nemesis fires its faults. Recovery waits until the healed cluster serves under load, and stops the writes. In the
end every reader reads all partitions from the start, and the logs of all replicas are dumped.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.environments.base import FIT_S
from harness.run.context import RunContext, describe_node_failure
from harness.run.health import ReportedEnd, by_topic, partition_ends, unhealthy_reason
from harness.run.stopping import Interrupted, RunFailed
from harness.run.workers import acked, start_workers
from harness.run.workload_topic import TIMEOUT_S, TopicWatch, bootstrap, create_topic
from harness.spec.spec import Spec
from history.processes import process_name
from history.repeats import Repeats
from nemesis.faults.base import Bounds, NemesisClock, Site
from nemesis.runner import NemesisRunner
from workloads.clients.optional_interfaces import SESSION_TIMEOUT_MS
from workloads.values import decode_value

WORKERS_USUAL = 2
"""Worker processes of one client library; more would compete with the brokers for a small machine's processors."""

REQUEST_TIMEOUT_MS = 2_500
DELIVERY_TIMEOUT_MS = 5_000
"""Shorter than the clients' defaults: a process that waits for a dead leader sends nothing to the others."""

TICK_S = 0.25
RECOVERED_S = 60.0
ANSWER_S = 10.0
DRAIN_S = 30.0
AGREE_S = 15.0

READ_S = 130.0
"""A little more than the workers' own limit, so that they can report what is missing."""


def set_up(context: RunContext) -> None:
    """Set the run up. Every error is one line, for exit status 4."""
    context.environment.set_up()
    _await_nodes(context)
    _await_fitness(context)
    create_topic(context)
    directory = context.plan.clients
    context.workers = start_workers(context.environment, directory, _worker_configs(context))

    def all_ready() -> bool:
        context.require_workers()
        return all(worker.latest("ready") is not None for worker in context.workers)

    if not context.until(all_ready, TIMEOUT_S):
        within = f"within {context.scaled(TIMEOUT_S):g} s"
        raise RunFailed(
            f"expected the workers to connect {within}, found that they did not; see the logs in {directory}"
        )


def _await_nodes(context: RunContext) -> None:
    nodes = context.environment.cluster.nodes.values()

    def all_serve() -> bool:
        context.require_nodes()
        return all(node.is_ready() for node in nodes)

    within_s = max(TIMEOUT_S, context.system.traits.start_s)
    if not context.until(all_serve, within_s):
        idle = next(node for node in nodes if not node.is_ready())
        raise RunFailed(describe_node_failure(idle, f"serve within {context.scaled(within_s):g} s", "does not"))


def _await_fitness(context: RunContext) -> None:
    """Wait until the cluster is the one that is to be tested: a node learns its features after it has started."""
    plans = context.environment.plans
    if not context.until(lambda: context.system.unfit(plans) is None, FIT_S) and (why := context.system.unfit(plans)):
        raise RunFailed(why)


def _worker_configs(context: RunContext) -> Sequence[Mapping[str, object]]:
    """Share the specification's rate and processes among the workers."""
    plan = context.plan
    spec = plan.spec
    workers = worker_count(spec)
    return [
        {
            "run_id": plan.run_id,
            "origin_ns": context.clock.origin_ns,
            "worker": number,
            "workers": workers,
            "history": str((plan.directory / "history").absolute()),
            "bootstrap": bootstrap(context),
            "client_config": spec.client_config,
            "topics": {context.system.traits.topic: spec.partitions},
            "workload": spec.workload,
            "groups": {group: context.system.offsets_partition_of(group) for group in context.system.traits.groups}
            if spec.workload == "groups"
            else {},
            "client": spec.libraries[number % len(spec.libraries)],
            "assignor": spec.assignor,
            "static_members": spec.static_members,
            "acks": spec.acks_number,
            "idempotence": spec.idempotence,
            "rate": spec.rate / workers,
            "producers": spec.concurrency // workers + (number < spec.concurrency % workers),
            "seed": spec.seed,
            "request_timeout_ms": REQUEST_TIMEOUT_MS * spec.pace,
            "delivery_timeout_ms": DELIVERY_TIMEOUT_MS * spec.pace,
            "session_timeout_ms": max(SESSION_TIMEOUT_MS, context.system.traits.session_ms_min),
        }
        for number in range(workers)
    ]


def worker_count(spec: Spec) -> int:
    """Number of worker processes: one at least for each client library, and none without a logical process."""
    return min(max(WORKERS_USUAL, len(spec.libraries)), spec.concurrency)


def main_phase(context: RunContext) -> None:
    """Fire the schedule while the workers run. When this returns or raises, every fault has been undone."""
    traits = context.system.traits
    bounds = Bounds(heal_s=traits.start_s, stop_s=traits.stop_s).at_pace(context.plan.spec.pace)
    runner = NemesisRunner(
        Site.of(context.environment.cluster, NemesisClock(context.clock.now), bounds, traits.orderly_exits),
        context.plan.schedule,
        lambda event, details: context.journal.record(event, **details),
        context.recorder("faults"),
        context.progress.log,
        context.plan.spec.lossy_budget,
    )
    start_ns = context.clock.now()
    end_ns = start_ns + int(context.plan.spec.duration * 1e9)
    nemesis = _NemesisThread(lambda stopped: runner.run(start_ns, end_ns, stopped))
    nemesis.start()
    topic = TopicWatch(context)
    try:
        while context.clock.now() < end_ns or nemesis.is_alive():
            context.stop.sleep(TICK_S)
            context.record_lost_workers()
            context.record_refusals()
            context.record_lost_nodes(lambda: runner.held_nodes)
            topic.check()
            past_s = (context.clock.now() - start_ns) / 1e9
            duration_s = context.plan.spec.duration
            share, left_s = min(1.0, past_s / duration_s), max(0.0, duration_s - past_s)
            context.progress.status(acked(context.workers), runner.active, share, left_s)
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


class _NemesisThread(threading.Thread):
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


def recover(context: RunContext) -> Sequence[ReportedEnd]:
    """Wait for the cluster within bounds, stop the writes, and determine the end of every partition.

    A condition that is not met in time is recorded, and judged by the checkers. Nodes that ended by themselves are not
    waited for.
    """
    with context.recording_errors():
        _await_recovery(context)
    with context.recording_errors():
        _stop_writes(context)
    found: Sequence[ReportedEnd] = ()
    with context.recording_errors():
        found = _agree(context)
    for end in found:
        context.history.add("ends", _end_row(end))
    return found


def _await_recovery(context: RunContext) -> None:
    cluster = context.environment.cluster
    started_ns = context.clock.now()
    topic = TopicWatch(context)

    def recovered() -> bool:
        context.record_lost_workers()
        context.record_lost_nodes()
        topic.check()
        context.progress.status(acked(context.workers), ())
        return unhealthy_reason(cluster, context.lost_nodes) is None

    if not context.until(recovered, RECOVERED_S):
        reason = unhealthy_reason(cluster, context.lost_nodes)
        context.trouble(f"the cluster had not recovered after {context.scaled(RECOVERED_S):g} s: {reason}")
        return
    context.progress.log(f"the cluster recovered after {(context.clock.now() - started_ns) / 1e9:.1f} s")
    before = acked(context.workers)

    def answered() -> bool:
        context.record_lost_workers()
        return acked(context.workers) > before

    if not context.until(answered, ANSWER_S):
        context.trouble(f"the recovered cluster acknowledged no write within {context.scaled(ANSWER_S):g} s")


def _stop_writes(context: RunContext) -> None:
    context.command_workers("drain")
    if not context.until(context.all_reported("drained"), DRAIN_S):
        context.trouble(f"sends were still in flight after {context.scaled(DRAIN_S):g} s")


def _agree(context: RunContext) -> Sequence[ReportedEnd]:
    found: Sequence[ReportedEnd] = ()

    def agreed() -> bool:
        nonlocal found
        views = context.environment.cluster.partitions()
        found = partition_ends(context.system, context.environment.plans, views, context.lost_nodes)
        return bool(found) and all(end.agreed for end in found)

    if not context.until(agreed, AGREE_S):
        apart = [f"{end.topic}-{end.partition}" for end in found if not end.agreed]
        context.trouble(f"the replicas do not agree on the end of {', '.join(apart) or 'any partition'}")
    return found


def _end_row(end: ReportedEnd) -> Mapping[str, object]:
    return {
        "topic": end.topic,
        "partition": end.partition,
        "end_offset": end.end_offset,
        "agreed": end.agreed,
    }


def read_all(context: RunContext, ends: Sequence[ReportedEnd]) -> None:
    """Let the workers read up to these ends, then dump the logs of all replicas."""
    if ends:
        with context.recording_errors():
            _read_to_the_ends(context, ends)
    context.stop_workers()
    with context.recording_errors():
        _dump_logs(context)


def _read_to_the_ends(context: RunContext, ends: Sequence[ReportedEnd]) -> None:
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


def _unread(item: Mapping[str, Any]) -> str:
    name = f"{item['topic']}-{item['partition']}"
    if item["position"] is None:
        return f"{process_name(item['process'])} got no end offset for {name}"
    return f"{process_name(item['process'])} read {name} up to {item['position']}, its end is {item['end']}"


def _dump_logs(context: RunContext) -> None:
    """Write every record of every replica into the table `logs`. A broker that does not answer is left out."""
    record, record_repeat = context.recorder("logs"), context.recorder("repeats")
    for plan in context.environment.plans:
        for replica in context.system.replicas(plan):
            if replica.high_watermark is None:
                continue
            repeats = Repeats(plan.node_id, replica.topic, replica.partition)
            for item in context.system.log(plan, replica.topic, replica.partition):
                if context.stop.requested:
                    raise Interrupted
                value = decode_value(item.value)
                for row in repeats.found(value, item.offset, item.producer):
                    record_repeat(row)
                record(
                    {
                        "broker": plan.node_id,
                        "topic": replica.topic,
                        "partition": replica.partition,
                        "offset": item.offset,
                        "leader_epoch": item.leader_epoch,
                        "value": value,
                        "crc": item.crc,
                        "high_watermark": replica.high_watermark,
                    }
                )
