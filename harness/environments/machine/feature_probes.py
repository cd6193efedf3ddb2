"""Which mechanisms this machine offers, found out by trying them.

A trial does in small what a run does in earnest, so that what it finds is what a run will find.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from checkers.executable_directory import directory_for_programs
from harness.doctor.remedies.table import Explanation, explain
from harness.environments.base import EnvironmentFailed
from harness.environments.causes import Cause, NotRoot, Refused, cause_of
from harness.environments.machine import wall_clock
from harness.environments.machine.helpers.helper import HelperRefused
from harness.environments.machine.helpers.supervisor import Supervisor
from harness.environments.machine.helpers.supervisor_process import Settings
from harness.environments.storage import fuse
from harness.environments.storage.page_cache import make_file_system

_TRIAL_IMAGE_BYTES = 8 << 20


@dataclass(frozen=True)
class ProbeResult:
    """What came of trying a mechanism."""

    available: bool
    found: str  # one line: what worked, or why not
    capability: str = ""  # of the table of remedies
    cause: Cause | None = None  # if it did not work, and something is known of why

    @property
    def explanation(self) -> Explanation | None:
        """The cause in words, and a remedy; None if it worked, or the table does not know the cause."""
        return None if self.available else explain(self.capability, self.cause)

    def __str__(self) -> str:
        """What was found, in one line, with the remedy if there is one."""
        if (known := self.explanation) is None:
            return self.found
        refusal = f" ({self.found})" if isinstance(self.cause, Refused) else ""
        return f"{known.words}{refusal}; {known.remedy.text}"


def attempt(capability: str, trial: Callable[[], str]) -> ProbeResult:
    """Make a trial that tells what worked, or raises with the reason."""
    try:
        return ProbeResult(True, trial(), capability)
    except (EnvironmentFailed, HelperRefused, OSError) as error:
        return ProbeResult(False, str(error), capability, cause_of(error))


@cache
def try_namespaces() -> ProbeResult:
    """Make two namespaces and send a packet from one to the other, over a link that is whole, cut, and mended."""

    def trial() -> str:
        keeper = Supervisor(Settings(network=True, mounts=False, endpoints=(0, 1)), {})
        try:
            seen = []
            for links in ([], [(0, 1)], []):
                keeper.ask("block", links=links)
                seen.append(keeper.ask("probe", links=[(0, 1)], timeout_s=0.1)[0])
        finally:
            keeper.close()
        if seen != [True, False, True]:
            raise EnvironmentFailed(
                f"expected a packet to arrive before and after a cut and not during it, found {seen}"
            )
        return "as root" if os.geteuid() == 0 else "in a user namespace, without root"

    return attempt("namespaces", trial)


@cache
def try_ext4() -> ProbeResult:
    """Crash a small ext4 image, and see that it lost what was not synced and kept what was."""

    def trial() -> str:
        if os.geteuid() != 0:
            raise EnvironmentFailed("this user is not root", NotRoot())
        with tempfile.TemporaryDirectory(prefix="harrow-trial-") as directory:
            image, disk = Path(directory, "disk.img"), Path(directory, "disk")
            disk.mkdir()
            with image.open("wb") as file:
                file.truncate(_TRIAL_IMAGE_BYTES)
            make_file_system(image)
            keeper = Supervisor(Settings(network=False, mounts=True, endpoints=()), {})
            try:
                return _crash_and_compare(keeper, image, disk)
            finally:
                keeper.close()

    return attempt("ext4", trial)


@cache
def try_shaping() -> ProbeResult:
    """Lose every packet of a link on a detour through user space, and none after."""

    def trial() -> str:
        if not (namespaces := try_namespaces()).available:
            raise EnvironmentFailed(namespaces.found, namespaces.cause)
        keeper = Supervisor(Settings(network=True, mounts=False, endpoints=(0, 1)), {})
        try:
            seen = []
            for shapes in ([[0, 1, {"delay_ms": 1.0}]], [[0, 1, {"loss_percent": 100.0}]], []):
                keeper.ask("shape", shapes=shapes)
                seen.append(keeper.ask("probe", links=[(0, 1)], timeout_s=0.1)[0])
        finally:
            keeper.close()
        if seen != [True, False, True]:
            raise EnvironmentFailed(f"expected packets to pass but while all are lost, found {seen}")
        return "a user-space switch works"

    return attempt("shaping", trial)


def _crash_and_compare(keeper: Supervisor, image: Path, disk: Path) -> str:
    keeper.ask("attach-disk", image=str(image), mount_point=str(disk))
    # The mount is seen by the keeper and its children alone; /proc shows it to us.
    file = Path(f"/proc/{keeper.pid}/root{disk}/trial")
    with file.open("wb") as written:
        written.write(bytes(1000))
        written.flush()
        os.fsync(written.fileno())
        written.write(bytes(500))
    loss = keeper.ask("crash-disk", mount_point=str(disk))
    if loss["files"] != {"trial": [1500, 1000]}:
        raise EnvironmentFailed(f"expected a crash to take 500 bytes of 1500, found {loss['files']}")
    return "loop device, mount and shutdown work"


@cache
def try_fuse() -> ProbeResult:
    """Mount the forgetful file system, and see that it loses what was not synced and keeps what was."""
    return attempt("fuse", fuse.trial)


@cache
def try_clock() -> ProbeResult:
    """Bend the wall clock of a process."""

    def trial() -> str:
        with tempfile.TemporaryDirectory(prefix="harrow-trial-", dir=directory_for_programs()) as directory:
            return wall_clock.trial(Path(directory))

    return attempt("clock", trial)
