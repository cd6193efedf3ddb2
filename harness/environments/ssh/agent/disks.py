"""The disk of a node on its machine (a mechanism of `local`, or the VM's own disk), and file transfer."""

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
from harness.environments.storage import node_disk
from harness.environments.storage.disks import Disks, read_states
from harness.environments.storage.fuse import FuseMounts
from harness.environments.storage.page_cache import Ext4Images, PageCache
from harness.store.journal import Journal
from nemesis.capabilities.disks import PageCacheLoss, Survival, Trouble

_LOG_BYTES = 16 << 20


class PlainDisk:
    """The machine's own files (`storage.page_cache.PageCache`); with a device, those of the node's own disk.

    They are lost only in a power cut of the machine, which its agent cannot cause.
    """

    name = "power-cut"
    how = "the machine loses its power, and comes back with its disk"
    storage: Literal["files", "page-cache"] = "files"

    def __init__(self, device: str) -> None:
        self._device = device
        self._disks = Disks()

    def prepare(self, plan: NodePlan) -> None:
        """Mount the disk at `plan.data`; after a power loss this runs the journal's recovery."""
        plan.data.mkdir(parents=True, exist_ok=True)
        if self._device:
            linux.mount(self._device, plan.data, "ext4")
            if (plan.data / "lost+found").exists():
                (plan.data / "lost+found").rmdir()

    def lose(self, plan: NodePlan) -> PageCacheLoss:  # noqa: ARG002
        """Not supported."""
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
        """Nothing to do: a file system keeps no other record."""

    def make_trouble(self, plan: NodePlan, trouble: Trouble, delay_ms: int) -> None:  # noqa: ARG002
        """Fill all free space, if the disk is the node's own."""
        if trouble != "full" or not self._device:
            raise HelperRefused(f"this disk cannot be in trouble of the kind {trouble}; use --page-cache fuse")
        self._disks.fill(plan.data)

    def end_trouble(self, plan: NodePlan) -> None:
        """Free the space."""
        self._disks.make_room(plan.data)

    def met_trouble(self, plan: NodePlan) -> int:
        """One if the disk is full: a file system does not count failed requests."""
        return int(os.statvfs(plan.data).f_bavail == 0)


class AgentDisk:
    """The configured mechanism, prepared, and access to files for the harness."""

    def __init__(
        self, config: AgentConfig, plan: NodePlan, supervisor: Supervisor, journal: Journal, mark: Mapping[str, str]
    ) -> None:
        self._plan = plan
        self._log_patterns = config.log_patterns
        self.mechanism: PageCache
        if config.disk == "ext4":
            self.mechanism = Ext4Images(supervisor, journal)
        elif config.disk == "fuse":
            self.mechanism = FuseMounts(journal, mark)
        else:
            self.mechanism = PlainDisk(config.device)
        self.mechanism.prepare(plan)

    def release(self) -> None:
        """Release the disk."""
        self.mechanism.release(self._plan)

    def states(self) -> Mapping[str, object]:
        """Size and checksums of all files."""
        found = read_states(self.mechanism.view(self._plan))
        return {name: [state.size, state.blocks] for name, state in found.items()}

    def contents(self) -> Mapping[str, str]:
        """Contents of all files, packed."""
        return {name: pack(data) for name, data in node_disk.file_contents(self.mechanism.view(self._plan)).items()}

    def restore(self, before: Mapping[str, str], survival: Survival, seed: int) -> int:
        """Write back the surviving part of unsynced data; returns its size in bytes."""
        contents = {name: unpack(data) for name, data in before.items()}
        return node_disk.restore_survivors(self.mechanism.view(self._plan), contents, survival, seed)

    def log_names(self) -> Sequence[str]:
        """The node's log files, relative to its directory."""
        found = log_files(self._plan.directory, (*self._log_patterns, LOG_NAME))
        return [str(file.relative_to(self._plan.directory)) for file in found]

    def read_log(self, name: str) -> str:
        """The end of a log file, packed."""
        with self._inside(name).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _LOG_BYTES))
            return pack(file.read())

    def write_file(self, name: str, data: str) -> None:
        """Write a file in the node's directory."""
        file = self._inside(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(unpack(data))

    def _inside(self, name: str) -> Path:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise ValueError(f"expected a file in the node's directory, found {name!r}")
        return self._plan.directory / name


def pack(data: bytes) -> str:
    """Compress bytes and encode them as text."""
    return base64.b64encode(zlib.compress(data, 1)).decode()


def unpack(text: str) -> bytes:
    """Decode what `pack` encoded."""
    return zlib.decompress(base64.b64decode(text))
