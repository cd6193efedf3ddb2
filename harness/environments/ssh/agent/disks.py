"""The disk of a node on its machine: a mechanism of the environment `local`, or the VM's own, and files to and fro."""

from __future__ import annotations

import base64
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from harness.environments.base import NodePlan
from harness.environments.machine.helpers.helper import HelperRefused
from harness.environments.machine.helpers.supervisor import Supervisor
from harness.environments.machine.kernel import linux
from harness.environments.machine.node import LOG_NAME, log_files
from harness.environments.ssh.agent.config import AgentConfig
from harness.environments.storage import survivors
from harness.environments.storage.disks import Disks, read_states
from harness.environments.storage.fuse import FuseMounts
from harness.environments.storage.page_cache import Ext4Images, PageCache
from harness.store.journal import Journal
from nemesis.capabilities.disks import PageCacheLoss, Survival, Trouble

_LOG_BYTES = 16 << 20


class Unforgetful:
    """The machine's own files (`storage.page_cache.PageCache`); with a device, those of a disk that is the node's own.

    They are lost with the machine, if at all, which is not for an agent on it to do.
    """

    name = "power-cut"
    how = "the machine loses its power, and comes back with its disk"
    storage: Literal["files", "page-cache"] = "files"

    def __init__(self, device: str) -> None:
        self._device = device
        self._disks = Disks()

    def prepare(self, plan: NodePlan) -> None:
        """Have the disk at `plan.data`; after a loss of power this runs the journal's recovery."""
        plan.data.mkdir(parents=True, exist_ok=True)
        if self._device:
            linux.mount(self._device, plan.data, "ext4")
            if (plan.data / "lost+found").exists():
                (plan.data / "lost+found").rmdir()

    def lose(self, plan: NodePlan) -> PageCacheLoss:  # noqa: ARG002
        """Not from here."""
        raise HelperRefused("a page cache is lost here only with the machine's power, and this one is not ours to cut")

    def release(self, plan: NodePlan) -> None:
        """Unmount the disk."""
        if self._device and os.path.ismount(plan.data):
            self._disks.make_room(plan.data)
            linux.unmount(plan.data)

    def view(self, plan: NodePlan) -> Path:
        """Ordinary files."""
        return plan.data

    def changed_behind(self, plan: NodePlan) -> None:
        """Nothing to do: a file system remembers nothing else."""

    def make_trouble(self, plan: NodePlan, trouble: Trouble, delay_ms: int) -> None:  # noqa: ARG002
        """Take all the room that there is, if the disk is the node's own."""
        if trouble != "full" or not self._device:
            raise HelperRefused(f"this disk cannot be in trouble of the kind {trouble}; use --page-cache fuse")
        self._disks.fill(plan.data)

    def end_trouble(self, plan: NodePlan) -> None:
        """Give the room back."""
        self._disks.make_room(plan.data)

    def met_trouble(self, plan: NodePlan) -> int:
        """A file system does not count who finds it full: one, if it is."""
        return int(os.statvfs(plan.data).f_bavail == 0)


class AgentDisk:
    """The mechanism that was ordered, prepared, and what the harness asks about files."""

    def __init__(
        self, orders: AgentConfig, plan: NodePlan, keeper: Supervisor, journal: Journal, mark: Mapping[str, str]
    ) -> None:
        self._plan = plan
        self._log_patterns = orders.log_patterns
        self.mechanism: PageCache
        if orders.disk == "ext4":
            self.mechanism = Ext4Images(keeper, journal)
        elif orders.disk == "fuse":
            self.mechanism = FuseMounts(journal, mark)
        else:
            self.mechanism = Unforgetful(orders.device)
        self.mechanism.prepare(plan)

    def release(self) -> None:
        """Take the disk away."""
        self.mechanism.release(self._plan)

    def states(self) -> Mapping[str, object]:
        """Size and checksums of all files."""
        found = read_states(self.mechanism.view(self._plan))
        return {name: [state.size, state.blocks] for name, state in found.items()}

    def contents(self) -> Mapping[str, str]:
        """All files, packed."""
        return {name: pack(data) for name, data in survivors.contents(self.mechanism.view(self._plan)).items()}

    def restore(self, before: Mapping[str, str], survival: Survival, seed: int) -> int:
        """Write back what survives of what was not synced; returns how many bytes."""
        contents = {name: unpack(data) for name, data in before.items()}
        return survivors.restore(self.mechanism.view(self._plan), contents, survival, seed)

    def log_names(self) -> Sequence[str]:
        """The files to which the node has logged, in its directory."""
        found = log_files(self._plan.directory, (*self._log_patterns, LOG_NAME))
        return [str(file.relative_to(self._plan.directory)) for file in found]

    def read_log(self, name: str) -> str:
        """The end of one of them, packed."""
        with self._inside(name).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _LOG_BYTES))
            return pack(file.read())

    def write_file(self, name: str, data: str) -> None:
        """Put a file into the node's directory."""
        file = self._inside(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(unpack(data))

    def _inside(self, name: str) -> Path:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise ValueError(f"expected a file in the node's directory, found {name!r}")
        return self._plan.directory / name


def pack(data: bytes) -> str:
    """Bytes as text."""
    return base64.b64encode(zlib.compress(data, 1)).decode()


def unpack(text: str) -> bytes:
    """What was packed."""
    return zlib.decompress(base64.b64decode(text))
