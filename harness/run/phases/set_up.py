"""Set-up: nodes that serve, a topic, workers that are connected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.run.phases.stage import Stage, last_words
from harness.run.phases.topics import TIMEOUT_S, TOPIC, bootstrap, create_topic
from harness.run.stopping import Failed
from harness.run.workers import start_workers

WORKERS_MAX = 2
"""Worker processes; more would only compete with the brokers for a small machine."""

GROUPS = ("readers-a", "readers-b")
"""Consumer groups of the workload `groups`: two, so that more than one broker has a group to coordinate."""

REQUEST_TIMEOUT_MS = 2_500
DELIVERY_TIMEOUT_MS = 5_000
"""Shorter than the clients' own: a process that waits for a dead leader sends nothing to the living."""


def set_up(stage: Stage) -> None:
    """Do it all; with status 4 in mind, everything that goes wrong is told in one line."""
    stage.environment.set_up()
    _await_nodes(stage)
    create_topic(stage)
    directory = stage.plan.clients
    stage.workers = start_workers(stage.environment, directory, _orders(stage))

    def all_ready() -> bool:
        stage.require_workers()
        return all(worker.latest("ready") is not None for worker in stage.workers)

    if not stage.until(all_ready, TIMEOUT_S):
        within = f"within {stage.paced(TIMEOUT_S):g} s"
        raise Failed(f"expected the workers to connect {within}, found that they did not; see {directory}")


def _await_nodes(stage: Stage) -> None:
    nodes = stage.environment.cluster.nodes.values()

    def all_serve() -> bool:
        stage.require_nodes()
        return all(node.is_ready() for node in nodes)

    if not stage.until(all_serve, TIMEOUT_S):
        idle = next(node for node in nodes if not node.is_ready())
        raise Failed(last_words(idle, f"serve within {stage.paced(TIMEOUT_S):g} s", "does not"))


def _orders(stage: Stage) -> Sequence[Mapping[str, object]]:
    """Share the specification's rate and processes among the workers."""
    plan = stage.plan
    spec = plan.spec
    workers = worker_count(spec.concurrency)
    return [
        {
            "run_id": plan.run_id,
            "origin_ns": stage.clock.origin_ns,
            "worker": number,
            "workers": workers,
            "history": str((plan.directory / "history").absolute()),
            "bootstrap": bootstrap(stage),
            "topics": {TOPIC: spec.partitions},
            "workload": spec.workload,
            "groups": {group: stage.system.offsets_partition_of(group) for group in GROUPS}
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
    """Tell how many worker processes share so many logical ones."""
    return min(WORKERS_MAX, concurrency)
