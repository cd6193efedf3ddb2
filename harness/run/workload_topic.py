"""Creates the workload's topic, and creates it again when the system under test has lost it."""

from __future__ import annotations

import json
from pathlib import Path

from harness.environments.base import Process
from harness.environments.machine.helpers.programs import module_command
from harness.run.context import RunContext, with_log
from harness.run.stopping import RunFailed
from harness.spec.spec import OWN_SYSTEM
from nemesis.capabilities.cluster import CLIENTS, is_broker

TIMEOUT_S = 60.0
GONE_S = 2.0
"""A topic that no broker knows for this long while all of them serve is lost."""

_TAIL_LINES = 5
_NS_PER_S = 1_000_000_000
CHECK_INTERVAL_NS = _NS_PER_S // 2


def create_topic(context: RunContext) -> None:
    """Create the topic and wait for it. Raises `RunFailed`."""
    process = _start_creation(context)
    if not context.until(lambda: process.poll() is not None, TIMEOUT_S):
        process.kill()
        raise RunFailed(
            f"expected the topic to be created within {context.scaled(TIMEOUT_S):g} s, found that it was not"
        )
    if process.poll() != 0:
        raise RunFailed(with_log("expected the topic to be created, found that it was not", _tail(_log(context))))


def bootstrap(context: RunContext) -> list[str]:
    """The addresses at which clients reach the brokers."""
    reach = context.environment.addresses.reach
    brokers = [plan.node_id for plan in context.environment.plans if is_broker(plan)]
    return [f"{host}:{port}" for host, port in (reach(CLIENTS, broker, "CLIENT") for broker in brokers)]


class TopicWatch:
    """Creates the topic again when it is lost, as clients do that create the topics that they need.

    Otherwise all operations after the loss would fail, and the loss itself could not be read. Harrow's own broker is
    not checked: it does not lose topics, and each check costs time.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._missed_ns: int | None = None  # since when no broker knows it
        self._creation: Process | None = None
        self._due_ns = 0

    def check(self) -> None:
        """Check the topic if a check is due; does not wait for the creation that it starts."""
        now_ns = self._context.clock.now()
        if self._context.plan.spec.system == OWN_SYSTEM or now_ns < self._due_ns:
            return
        self._due_ns = now_ns + CHECK_INTERVAL_NS
        if self._creation is not None:
            if self._creation.poll() is None:
                return
            self._creation = None
        cluster = self._context.environment.cluster
        serving = all(node.is_ready() for node in cluster.nodes.values())
        if not serving or any(view.topic == self._context.system.traits.topic for view in cluster.partitions()):
            self._missed_ns = None
            return
        self._missed_ns = now_ns if self._missed_ns is None else self._missed_ns
        if now_ns - self._missed_ns >= GONE_S * _NS_PER_S:
            self._missed_ns = None
            name = self._context.system.traits.topic
            self._context.progress.log(f"no broker knows the topic {name}; creating it again", style="yellow")
            self._creation = _start_creation(self._context)


def _start_creation(context: RunContext) -> Process:
    spec, traits = context.plan.spec, context.system.traits
    config = {
        "do": "create-workload-topic",
        "bootstrap": bootstrap(context),
        "client_config": spec.client_config,
        "topic": traits.topic,
        "partitions": spec.partitions,
        "replication_factor": spec.replication_factor,
        "groups": traits.groups if spec.workload == "groups" else (),
        "settings": {"min.insync.replicas": str(spec.min_insync_replicas), **traits.topic_settings},
        "timeout_s": context.scaled(TIMEOUT_S) / 2,
    }
    return context.environment.spawn_client(
        module_command("harness.systems.administration", json.dumps(config)), _log(context)
    )


def _log(context: RunContext) -> Path:
    return context.plan.clients / "topic.log"


def _tail(log: Path) -> list[str]:
    return log.read_text(errors="replace").splitlines()[-_TAIL_LINES:] if log.exists() else []
