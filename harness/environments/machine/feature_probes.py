"""Probes which mechanisms work on this machine, by trying them.

A probe does on a small scale what a run does, so that its result holds for the run.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from common.directories import directory_for_programs
from harness.doctor.remedies.table import Explanation, explain
from harness.environments.base import EnvironmentFailed
from harness.environments.causes import Cause, NotRoot, Refused, cause_of
from harness.environments.machine import wall_clock
from harness.environments.machine.helpers.helper import HelperRefused
from harness.environments.machine.helpers.supervisor import Supervisor
from harness.environments.machine.helpers.supervisor_process import SupervisorSettings
from harness.environments.storage import fuse
from harness.environments.storage.page_cache import make_file_system

_PROBE_IMAGE_BYTES = 8 << 20


@dataclass(frozen=True)
class ProbeResult:
    """The result of probing a mechanism."""

    available: bool
    found: str  # one line: what worked, or the reason for the failure
    capability: str = ""  # key into the table of remedies
    cause: Cause | None = None  # if it did not work and the cause is known

    @property
    def explanation(self) -> Explanation | None:
        """The cause described, with a remedy; None if it worked, or the table does not have the cause."""
        return None if self.available else explain(self.capability, self.cause)

    def __str__(self) -> str:
        """Format the result in one line, with the remedy if there is one."""
        if (known := self.explanation) is None:
            return self.found
        refusal = f" ({self.found})" if isinstance(self.cause, Refused) else ""
        return f"{known.words}{refusal}; {known.remedy.text}"


def attempt(capability: str, probe: Callable[[], str]) -> ProbeResult:
    """Run a probe, which returns what worked or raises with the reason."""
    try:
        return ProbeResult(True, probe(), capability)
    except (EnvironmentFailed, HelperRefused, OSError) as error:
        return ProbeResult(False, str(error), capability, cause_of(error))


@cache
def try_namespaces() -> ProbeResult:
    """Create two namespaces and send a packet between them while their link is whole, cut, and restored."""

    def probe() -> str:
        supervisor = Supervisor(SupervisorSettings(network=True, mounts=False, endpoints=(0, 1)), {})
        try:
            seen = []
            for links in ([], [(0, 1)], []):
                supervisor.ask("block", links=links)
                seen.append(supervisor.ask("probe", links=[(0, 1)], timeout_s=0.1)[0])
        finally:
            supervisor.close()
        if seen != [True, False, True]:
            raise EnvironmentFailed(
                f"expected a packet to arrive before and after a cut and not during it, found {seen}"
            )
        return "as root" if os.geteuid() == 0 else "in a user namespace, without root"

    return attempt("namespaces", probe)


@cache
def try_ext4() -> ProbeResult:
    """Crash a small ext4 image, and check that it lost unsynced data and kept synced data."""

    def probe() -> str:
        if os.geteuid() != 0:
            raise EnvironmentFailed("this user is not root", NotRoot())
        with tempfile.TemporaryDirectory(prefix="harrow-probe-") as directory:
            image, disk = Path(directory, "disk.img"), Path(directory, "disk")
            disk.mkdir()
            with image.open("wb") as file:
                file.truncate(_PROBE_IMAGE_BYTES)
            make_file_system(image)
            supervisor = Supervisor(SupervisorSettings(network=False, mounts=True, endpoints=()), {})
            try:
                return _crash_and_compare(supervisor, image, disk)
            finally:
                supervisor.close()

    return attempt("ext4", probe)


@cache
def try_shaping() -> ProbeResult:
    """Lose every packet of a link that is routed through the user-space shaper, and none afterwards."""

    def probe() -> str:
        if not (namespaces := try_namespaces()).available:
            raise EnvironmentFailed(namespaces.found, namespaces.cause)
        supervisor = Supervisor(SupervisorSettings(network=True, mounts=False, endpoints=(0, 1)), {})
        try:
            seen = []
            for shapes in ([[0, 1, {"delay_ms": 1.0}]], [[0, 1, {"loss_percent": 100.0}]], []):
                supervisor.ask("shape", shapes=shapes)
                seen.append(supervisor.ask("probe", links=[(0, 1)], timeout_s=0.1)[0])
        finally:
            supervisor.close()
        if seen != [True, False, True]:
            raise EnvironmentFailed(f"expected packets to pass but while all are lost, found {seen}")
        return "a user-space switch works"

    return attempt("shaping", probe)


def _crash_and_compare(supervisor: Supervisor, image: Path, disk: Path) -> str:
    supervisor.ask("attach-disk", image=str(image), mount_point=str(disk))
    # Only the supervisor and its children see the mount; we reach it through /proc.
    file = Path(f"/proc/{supervisor.pid}/root{disk}/probe")
    with file.open("wb") as written:
        written.write(bytes(1000))
        written.flush()
        os.fsync(written.fileno())
        written.write(bytes(500))
    loss = supervisor.ask("crash-disk", mount_point=str(disk))
    if loss["files"] != {"probe": [1500, 1000]}:
        raise EnvironmentFailed(f"expected a crash to take 500 bytes of 1500, found {loss['files']}")
    return "loop device, mount and shutdown work"


@cache
def try_fuse() -> ProbeResult:
    """Mount the forgetful file system, and check that it loses unsynced data and keeps synced data."""
    return attempt("fuse", fuse.probe)


@cache
def try_clock() -> ProbeResult:
    """Skew the wall clock of a process."""

    def probe() -> str:
        with tempfile.TemporaryDirectory(prefix="harrow-probe-", dir=directory_for_programs()) as directory:
            return wall_clock.probe(Path(directory))

    return attempt("clock", probe)
