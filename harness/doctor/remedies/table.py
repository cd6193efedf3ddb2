"""The table of capabilities and remedies: title, causes of absence in the order of checking, what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from harness.doctor.remedies import default_job, disks, programs
from harness.doctor.remedies.machine_state import MachineState, inspect_machine
from harness.doctor.remedies.namespaces import ROWS as NAMESPACES
from harness.doctor.remedies.remedy import Remedy, install_python
from harness.doctor.remedies.rows import RemedyRow, device_rows, first
from harness.environments.causes import Cause

TABLE: Mapping[str, Sequence[RemedyRow]] = {
    "packages": default_job.PACKAGES,
    "java": default_job.JAVA,
    "store": default_job.STORES,
    "temporary-directory": default_job.TEMPORARIES,
    "memory": default_job.MEMORY,
    "tasks": default_job.TASKS,
    "processes": default_job.PROCESSES,
    "loopback": default_job.LOOPBACKS,
    "namespaces": NAMESPACES,
    "shaping": device_rows(
        "/dev/net/tun",
        "tun",
        "tun",
        make=("mkdir -p /dev/net", "mknod -m 666 /dev/net/tun c 10 200"),
        use=("chmod a+rw /dev/net/tun",),
    ),
    "ext4": disks.EXT4,
    "fuse": disks.FUSE,
    "clock": programs.CLOCK,
    "docker": programs.DOCKER,
    "ssh": programs.SSH,
    "vms": programs.VMS,
    "aiokafka": programs.AIOKAFKA,
    "confluent-kafka": programs.CONFLUENT,
    "kcat": programs.KCAT,
    "zookeeper": programs.ZOOKEEPER,
    "compiled": programs.COMPILED,
}
"""The causes of capabilities that another one depends on are listed there: see `ALSO`."""

ALSO: Mapping[str, Sequence[str]] = {"shaping": ("namespaces",), "docker": ("namespaces",)}
"""Capabilities that another one depends on."""

TITLES: Mapping[str, str] = {
    "python": "Python",
    "packages": "Python packages",
    "java": "Java for Spark",
    "store": "directory of runs",
    "temporary-directory": "temporary directory",
    "memory": "memory",
    "tasks": "threads",
    "processes": "processes",
    "loopback": "loopback",
    "namespaces": "network by namespaces",
    "shaping": "delay, loss and the like",
    "proxies": "network by proxies",
    "ext4": "page-cache loss by ext4",
    "fuse": "page-cache loss by FUSE",
    "page-cache": "page-cache loss by ledger",
    "clock": "wrong wall clocks",
    "docker": "nodes in containers",
    "ssh": "nodes on hosts, by SSH",
    "vms": "nodes in VMs",
    "aiokafka": "client aiokafka",
    "confluent-kafka": "client confluent-kafka",
    "kcat": "client kcat",
    "zookeeper": "ensembles of ZooKeeper",
    "compiled": "compiled simulator",
}


@dataclass(frozen=True)
class Explanation:
    """Why a capability is missing, and what to do."""

    cause: str
    words: str
    remedy: Remedy


def explain(capability: str, cause: Cause | None, here: MachineState | None = None) -> Explanation | None:
    """Explain why a capability is missing; None if the table does not have this cause."""
    machine = here or _here()
    for name in (capability, *ALSO.get(capability, ())):
        row = first(TABLE.get(name, ()), cause, machine)
        if row is not None and cause is not None:
            return Explanation(row.name, row.words, row.choose(cause, machine))
    return None


def to_install(distribution: str) -> str:
    """The command that installs a Python package on this machine."""
    return install_python(_here(), distribution).text


@cache
def _here() -> MachineState:
    return inspect_machine()


def markdown() -> str:
    """The table for the documentation; it does not depend on the machine."""
    lines = ["| capability | cause | remedy |", "|---|---|---|"]
    for capability, rows in TABLE.items():
        title = f"`{capability}`: {TITLES[capability]}"
        lines += [f"| {title} | {_cell(row.words)} | {_remedy(row)} |" for row in rows]
        lines += [f"| {title} | what `{other}` lacks | see there |" for other in ALSO.get(capability, ())]
    return "\n".join(lines)


def plain() -> str:
    """The table for a terminal: each capability, below it its causes, below each cause its remedy."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    for capability, rows in TABLE.items():
        yield f"{capability}: {TITLES[capability]}"
        for row in rows:
            yield f"  {row.words} ({row.name})"
            yield f"    {row.choose(row.example, row.here).text}"
        for other in ALSO.get(capability, ()):
            yield f"  what {other} lacks"


def _remedy(row: RemedyRow) -> str:
    remedy = row.choose(row.example, row.here)
    return f"`{_cell(remedy.text)}`" if remedy.command else _cell(remedy.text)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
