"""Watches the nodes while they are fuzzed: their processes, memory, incidents, and how soon they answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.broker.fuzz.probing import Probe, probe, probe_processes
from benchmarks.broker.fuzz.target import Target
from tests.support.local_cluster import LISTENERS_OF, LocalNode

ANSWER_S_MAX = 1.0
"""A slower answer to a probe is a failure."""

MEMORY_MB_MAX = 150
"""A node's resident memory; more is a failure."""

_INTERVAL_S = 1.0


class Failure(NamedTuple):
    """Something that must not happen."""

    kind: str
    node: int
    text: str


class Health(NamedTuple):
    """What was measured of one node."""

    slowest_s: float
    """The slowest answer, without the time in which its node or the probe waited for a processor."""

    slowest_with_waiting_s: float
    """The slowest answer with it: on a machine with other work that says little of the node."""

    memory_mb: int
    incidents: int
    probes: int


class Watching:
    """A thread for each node, which probes it each second."""

    def __init__(self, target: Target, failed: Callable[[Failure], None]) -> None:
        self._target = target
        self._failed = failed
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.health = {node.number: Health(0.0, 0.0, 0, 0, 0) for node in target.nodes}
        self._processes = probe_processes(len(target.nodes))
        self._threads = [threading.Thread(target=self._watch, args=(node,), daemon=True) for node in target.nodes]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Probe no more."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._processes.shutdown()

    def _watch(self, node: LocalNode) -> None:
        counted, pid = 0, node.pid
        while not self._stop.wait(_INTERVAL_S):
            assert node.process is not None
            status = node.process.poll()
            if status is not None or node.pid != pid:
                self._failed(Failure("ended", node.number, f"node {node.number} ended with status {status}"))
                node.process = None
                node.start()
                counted, pid = 0, node.pid
                self._until_ready(node)
                continue
            self._probe(node)
            counted = self._count_incidents(node, counted)
            self._measure_memory(node)

    def _until_ready(self, node: LocalNode) -> None:
        """Wait until a node that was started again serves, or has ended again."""
        while not self._stop.wait(0.1):
            if node.process is None or node.process.poll() is not None or node.is_ready():
                return

    def _probe(self, node: LocalNode) -> None:
        role = "CLIENT" if "CLIENT" in node.addresses else "CONTROLLER"
        for listener in LISTENERS_OF["broker" if role == "CLIENT" else "controller"]:
            address = self._target.address_of(node, listener)
            found = self._processes.submit(probe, node.pid, address, listener).result()
            self._update(node, lambda health, found=found: _with_answer(health, found))
            error = f" ({found.error})" if found.error else ""
            if (found.took_s > ANSWER_S_MAX or error) and node.process is not None and node.process.poll() is None:
                text = f"node {node.number}: a probe on {listener} took {found.took_s:.2f} s{error}"
                self._failed(Failure("slow", node.number, f"{text}, or {found.with_waiting_s:.2f} s with waiting"))

    def _count_incidents(self, node: LocalNode, before: int) -> int:
        try:
            text = node.ask("/metrics").decode()
        except OSError:
            return before
        now = next((int(float(line.split()[1])) for line in text.splitlines() if line.startswith(_INCIDENTS)), 0)
        if now > before:
            self._failed(Failure("incident", node.number, f"node {node.number} had {now - before} incidents"))
            self._update(node, lambda health: health._replace(incidents=health.incidents + now - before))
        return now

    def _measure_memory(self, node: LocalNode) -> None:
        try:
            text = Path(f"/proc/{node.pid}/status").read_text()
        except OSError:
            return
        peak_mb = next((int(line.split()[1]) >> 10 for line in text.splitlines() if line.startswith("VmHWM")), 0)
        before = self.health[node.number].memory_mb
        if before <= MEMORY_MB_MAX < peak_mb:
            self._failed(Failure("memory", node.number, f"node {node.number} took {peak_mb} MB of memory"))
        self._update(node, lambda health: health._replace(memory_mb=max(health.memory_mb, peak_mb)))

    def _update(self, node: LocalNode, change: Callable[[Health], Health]) -> None:
        with self._lock:
            self.health[node.number] = change(self.health[node.number])


_INCIDENTS = "harrow_incidents_total"


def _with_answer(health: Health, found: Probe) -> Health:
    return health._replace(
        slowest_s=max(health.slowest_s, found.took_s),
        slowest_with_waiting_s=max(health.slowest_with_waiting_s, found.with_waiting_s),
        probes=health.probes + 1,
    )
