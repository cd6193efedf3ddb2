"""Probes everything that runs may need of this machine, each capability in its own thread."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TookTooLong
from pathlib import Path

from harness.doctor import default_job_probes
from harness.doctor.compiled_probe import try_compiled
from harness.doctor.diagnosis import CapabilityState, DefaultJob
from harness.doctor.remedies.machine_state import find
from harness.doctor.remedies.table import TITLES
from harness.environments.base import EnvironmentFailed
from harness.environments.causes import Missing
from harness.environments.docker.capabilities import try_docker
from harness.environments.local import capabilities as local
from harness.environments.machine.feature_probes import (
    ProbeResult,
    attempt,
    try_clock,
    try_ext4,
    try_fuse,
    try_namespaces,
    try_shaping,
)
from harness.environments.ssh.capabilities import try_ssh
from harness.environments.ssh.vms.probe import try_vms
from harness.terminal.exits import describe
from nemesis.capabilities.cluster import Capability
from nemesis.faults import KINDS, USUAL

_TIMEOUT_S = 120.0
"""Long, because a machine with a load of ten takes ten times as long."""

NEEDED = ("python", "packages", "java", "store", "temporary-directory", "memory", "tasks", "processes", "loopback")
"""Capabilities that the default job requires."""


def examine(store: Path, only: Collection[str] = ()) -> list[CapabilityState]:
    """Probe all capabilities, or only these, each within two minutes.

    `store` is where runs are kept, or would be.
    """
    probes: Mapping[str, Callable[[], ProbeResult]] = {
        "python": default_job_probes.try_python,
        "packages": default_job_probes.try_packages,
        "java": default_job_probes.try_java,
        "store": lambda: default_job_probes.try_store(store),
        "temporary-directory": default_job_probes.try_temporary_directory,
        "memory": default_job_probes.try_memory,
        "tasks": default_job_probes.try_tasks,
        "processes": default_job_probes.try_processes,
        "loopback": default_job_probes.try_loopback,
        "namespaces": try_namespaces,
        "shaping": try_shaping,
        "proxies": lambda: ProbeResult(True, "needs nothing"),
        "ext4": try_ext4,
        "fuse": try_fuse,
        "page-cache": lambda: ProbeResult(True, "needs nothing; works for Harrow's own broker"),
        "clock": try_clock,
        "docker": try_docker,
        "ssh": try_ssh,
        "vms": try_vms,
        "aiokafka": lambda: _try_package("aiokafka", "aiokafka"),
        "confluent-kafka": lambda: _try_package("confluent-kafka", "confluent_kafka"),
        "kcat": _try_kcat,
        "zookeeper": _try_zookeeper,
        "compiled": try_compiled,
    }
    wanted = {name: probe for name, probe in probes.items() if not only or name in only}
    # Alone, because it would leave no thread for the others; where threads are few, the others run in turn, too.
    tasks = _await(_start(probes["tasks"]))
    known = {"tasks": tasks}
    if tasks.available:
        waiting = {name: _start(probe) for name, probe in wanted.items() if name not in known}
        known |= {name: _await(future) for name, future in waiting.items()}
    else:
        known |= {name: _await(_start(probe)) for name, probe in wanted.items() if name not in known}
    return [CapabilityState.of(known[name], name, TITLES[name], needed=name in NEEDED) for name in wanted]


def default_job(findings: Sequence[CapabilityState]) -> DefaultJob:
    """Decide from the findings whether `harrow run` works, and by which mechanisms."""
    lacks = [finding for finding in findings if finding.needed and not finding.available]
    if lacks:
        return DefaultJob({}, lacks)
    needs: frozenset[Capability] = frozenset().union(*(KINDS[name].needs for name in USUAL))
    chosen = local.choose("auto", "auto", needs)
    java = next(finding.found for finding in findings if finding.capability == "java")
    return DefaultJob({"network": chosen.network, "page-cache loss": chosen.page_cache, "Spark": java}, ())


def _start(probe: Callable[[], ProbeResult]) -> Future[ProbeResult]:
    future: Future[ProbeResult] = Future()

    def work() -> None:
        try:
            future.set_result(probe())
        except BaseException as error:
            future.set_exception(error)

    # A daemon thread, so that a probe that hangs does not keep the command from ending; its children end with us.
    threading.Thread(target=work, daemon=True).start()
    return future


def _await(future: Future[ProbeResult]) -> ProbeResult:
    try:
        return future.result(_TIMEOUT_S)
    except TookTooLong:
        return ProbeResult(False, f"no answer within {_TIMEOUT_S:g} s")
    except Exception as error:  # an error of one probe must not hide the results of the others
        return ProbeResult(False, describe(error))


def _try_package(distribution: str, module: str) -> ProbeResult:
    def probe() -> str:
        if importlib.util.find_spec(module) is None:
            raise EnvironmentFailed("not installed", Missing("Python package", distribution))
        return "installed"

    return attempt(distribution, probe)


def _try_kcat() -> ProbeResult:
    def probe() -> str:
        if (program := find("kcat")) is None:
            raise EnvironmentFailed("not installed", Missing("program", "kcat"))
        return program

    return attempt("kcat", probe)


def _try_zookeeper() -> ProbeResult:
    from harness.systems.own.ensemble import version_here

    return attempt("zookeeper", version_here)
