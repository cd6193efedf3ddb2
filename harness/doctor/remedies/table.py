"""The table of remedies: capability → causes of its absence, in the order in which they are checked → remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from harness.doctor.remedies import basics, disks, programs
from harness.doctor.remedies.commands import Remedy, install_python
from harness.doctor.remedies.devices import device_rows
from harness.doctor.remedies.here import MachineState, inspect_machine
from harness.doctor.remedies.namespaces import ROWS as NAMESPACES
from harness.doctor.remedies.rows import RemedyRow, first
from harness.environments.causes import Cause

TABLE: Mapping[str, Sequence[RemedyRow]] = {
    "packages": basics.PACKAGES,
    "java": basics.JAVA,
    "store": basics.STORES,
    "temporary-directory": basics.TEMPORARIES,
    "memory": basics.MEMORY,
    "tasks": basics.TASKS,
    "processes": basics.PROCESSES,
    "loopback": basics.LOOPBACKS,
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
}
"""The causes of capabilities that another one depends on are listed there: see `ALSO`."""

ALSO: Mapping[str, Sequence[str]] = {"shaping": ("namespaces",), "docker": ("namespaces",)}
"""Capabilities that another one depends on."""


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
