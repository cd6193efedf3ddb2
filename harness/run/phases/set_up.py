"""The set-up phase: starts the nodes, creates the topic and connects the workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.run.phases.context import RunContext, describe_node_failure
from harness.run.phases.topics import TIMEOUT_S, TOPIC, bootstrap, create_topic
from harness.run.stopping import RunFailed
from harness.run.workers import start_workers

WORKERS_MAX = 2
"""Worker processes; more would compete with the brokers for the processors of a small machine."""

GROUPS = ("readers-a", "readers-b")
"""Consumer groups of the workload `groups`: two, so that more than one broker coordinates a group."""

REQUEST_TIMEOUT_MS = 2_500
DELIVERY_TIMEOUT_MS = 5_000
"""Shorter than the clients' defaults: a process that waits for a dead leader sends nothing to the others."""


def set_up(context: RunContext) -> None:
    """Set the run up. Every error is one line, for exit status 4."""
    context.environment.set_up()
    _await_nodes(context)
    create_topic(context)
    directory = context.plan.clients
    context.workers = start_workers(context.environment, directory, _configs(context))

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

    if not context.until(all_serve, TIMEOUT_S):
        idle = next(node for node in nodes if not node.is_ready())
        raise RunFailed(describe_node_failure(idle, f"serve within {context.scaled(TIMEOUT_S):g} s", "does not"))


def _configs(context: RunContext) -> Sequence[Mapping[str, object]]:
    """Share the specification's rate and processes among the workers."""
    plan = context.plan
    spec = plan.spec
    workers = worker_count(spec.concurrency)
    return [
        {
            "run_id": plan.run_id,
            "origin_ns": context.clock.origin_ns,
            "worker": number,
            "workers": workers,
            "history": str((plan.directory / "history").absolute()),
            "bootstrap": bootstrap(context),
            "topics": {TOPIC: spec.partitions},
            "workload": spec.workload,
            "groups": {group: context.system.offsets_partition_of(group) for group in GROUPS}
            if spec.workload == "groups"
            else {},
            "client": spec.client,
            "acks": spec.acks_number,
            "idempotence": spec.idempotence,
            "rate": spec.rate / workers,
            "producers": spec.concurrency // workers + (number < spec.concurrency % workers),
            "seed": spec.seed,
            "request_timeout_ms": REQUEST_TIMEOUT_MS * spec.pace,
            "delivery_timeout_ms": DELIVERY_TIMEOUT_MS * spec.pace,
        }
        for number in range(workers)
    ]


def worker_count(concurrency: int) -> int:
    """Number of worker processes that run this many logical ones."""
    return min(WORKERS_MAX, concurrency)
