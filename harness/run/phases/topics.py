"""The workload's topic: it is created, and created again when a system has lost it."""

from __future__ import annotations

import json
from pathlib import Path

from harness.environments.base import Process
from harness.environments.machine.helpers.own_python import module_command
from harness.run.phases.stage import Stage, with_log
from harness.run.stopping import Failed
from harness.spec.spec import OWN_SYSTEM
from nemesis.capabilities.cluster import CLIENTS, is_broker

TOPIC = "harrow"
TIMEOUT_S = 60.0
GONE_S = 2.0
"""A topic that no broker knows for so long while all of them serve is gone."""

_TAIL_LINES = 5
_NS_PER_S = 1_000_000_000
LOOK_NS = _NS_PER_S // 2


def create_topic(stage: Stage) -> None:
    """Create it and wait. Raises `Failed`."""
    process = _begin(stage)
    if not stage.until(lambda: process.poll() is not None, TIMEOUT_S):
        process.kill()
        raise Failed(f"expected the topic to be created within {stage.paced(TIMEOUT_S):g} s, found that it was not")
    if process.poll() != 0:
        raise Failed(with_log("expected the topic to be created, found that it was not", _tail(_log(stage))))


def bootstrap(stage: Stage) -> list[str]:
    """Where clients find the brokers."""
    reach = stage.environment.addresses.reach
    brokers = [plan.node_id for plan in stage.environment.plans if is_broker(plan)]
    return [f"{host}:{port}" for host, port in (reach(CLIENTS, broker, "CLIENT") for broker in brokers)]


class TopicWatch:
    """Has the topic created again when it is gone, as clients do that create the topics that they need.

    Without it everything after the loss would be silence, and the loss itself could not be read. Harrow's own broker
    is not looked at: it forgets no topic, and asking costs.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._missed_ns: int | None = None  # since when nobody knows it
        self._creation: Process | None = None
        self._due_ns = 0

    def look(self) -> None:
        """Look, if it is time again; does not wait for what it begins."""
        now_ns = self._stage.clock.now()
        if self._stage.plan.spec.system == OWN_SYSTEM or now_ns < self._due_ns:
            return
        self._due_ns = now_ns + LOOK_NS
        if self._creation is not None:
            if self._creation.poll() is None:
                return
            self._creation = None
        cluster = self._stage.environment.cluster
        serving = all(node.is_ready() for node in cluster.nodes.values())
        if not serving or any(view.topic == TOPIC for view in cluster.partitions()):
            self._missed_ns = None
            return
        self._missed_ns = now_ns if self._missed_ns is None else self._missed_ns
        if now_ns - self._missed_ns >= GONE_S * _NS_PER_S:
            self._missed_ns = None
            self._stage.progress.note(f"no broker knows the topic {TOPIC}; it is created again", style="yellow")
            self._creation = _begin(self._stage)


def _begin(stage: Stage) -> Process:
    spec = stage.plan.spec
    orders = {
        "bootstrap": bootstrap(stage),
        "topic": TOPIC,
        "partitions": spec.partitions,
        "replication_factor": spec.replication_factor,
        "min_insync_replicas": spec.min_insync_replicas,
        "timeout_s": stage.paced(TIMEOUT_S) / 2,
    }
    return stage.environment.spawn_client(module_command("harness.client_tasks.topic", json.dumps(orders)), _log(stage))


def _log(stage: Stage) -> Path:
    return stage.plan.clients / "topic.log"


def _tail(log: Path) -> list[str]:
    return log.read_text(errors="replace").splitlines()[-_TAIL_LINES:] if log.exists() else []
