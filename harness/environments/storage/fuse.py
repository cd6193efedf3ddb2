"""Mounts and controls the forgetful file system (`fuse_process`), which loses unsynced data in a crash."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from common.atomic_files import sync_directory
from harness.environments.base import EnvironmentFailed, NodePlan
from harness.environments.causes import Missing
from harness.environments.machine.helpers.helper import Helper
from harness.environments.machine.kernel import linux
from harness.environments.machine.kernel.process_identity import wait_until
from harness.environments.storage.fuse_process import GRAVEYARD, TREE, unmount
from harness.store.journal import Journal
from nemesis.capabilities.disks import PageCacheLoss, Trouble

_MODULE = "harness.environments.storage.fuse_process"
_MOUNTED = "/etc/mtab"
_UNMOUNT_TIMEOUT_S = 5.0


class FuseMount:
    """One mounted forgetful file system."""

    def __init__(self, backing: Path, mount_point: Path, environment: Mapping[str, str]) -> None:
        """Mount it; `HelperRefused` when the machine does not allow it."""
        self._backing = backing
        self._mount_point = mount_point
        for directory in (backing / TREE, backing / GRAVEYARD, mount_point):
            directory.mkdir(parents=True, exist_ok=True)
        self._helper = Helper(_MODULE, {"backing": str(backing), "mount_point": str(mount_point)}, environment)

    def crash(self) -> PageCacheLoss:
        """Lose unsynced data."""
        loss = self._helper.ask(do="crash")
        files = {name: (before, after) for name, (before, after) in loss["files"].items()}
        return PageCacheLoss("fuse", loss["lost_bytes"], files)

    def make_trouble(self, trouble: Trouble, delay_ms: int) -> None:
        """Make it fail from now on."""
        if trouble in ("read-error", "error"):
            self._forget_clean_pages()
        self._helper.ask(do="trouble", trouble=trouble, delay_ms=delay_ms)

    def end_trouble(self) -> None:
        """Make it work again."""
        self._helper.ask(do="end-trouble")

    def met_trouble(self) -> int:
        """How many requests the trouble has affected."""
        met: int = self._helper.ask(do="met-trouble")
        return met

    def _forget_clean_pages(self) -> None:
        """Drop clean pages: reads that the kernel answers from its cache never reach the file system."""
        for path in self._mount_point.rglob("*"):
            if path.is_file():
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(descriptor)

    def close(self) -> None:
        """Unmount, and move the files to the mount point."""
        self._helper.close()
        put_back(self._backing, self._mount_point)


class FuseMounts:
    """Page-cache loss by a FUSE file system of our own (`page_cache.PageCache`)."""

    name = "fuse"
    how = "a FUSE file system per node, which takes back what was not synced"
    storage: Literal["files", "page-cache"] = "files"

    def __init__(self, journal: Journal, environment: Mapping[str, str]) -> None:
        self._journal = journal
        self._environment = environment
        self._mounts: dict[int, FuseMount] = {}

    def prepare(self, plan: NodePlan) -> None:
        """Mount the node's disk."""
        backing = (plan.directory / "disk").absolute()
        mount_point = plan.data.absolute()
        self._journal.record("fuse", node=plan.node_id, backing=str(backing), mount_point=str(mount_point))
        self._mounts[plan.node_id] = FuseMount(backing, mount_point, self._environment)

    def lose(self, plan: NodePlan) -> PageCacheLoss:
        """Drop the dead node's unsynced data."""
        return self._mounts[plan.node_id].crash()

    def view(self, plan: NodePlan) -> Path:
        """The mount."""
        return plan.data.absolute()

    def changed_behind(self, plan: NodePlan) -> None:
        """Nothing to do: the changes went through the file system itself."""

    def make_trouble(self, plan: NodePlan, trouble: Trouble, delay_ms: int) -> None:
        """Make the file system fail from now on."""
        self._mounts[plan.node_id].make_trouble(trouble, delay_ms)

    def end_trouble(self, plan: NodePlan) -> None:
        """Make it work again."""
        self._mounts[plan.node_id].end_trouble()

    def met_trouble(self, plan: NodePlan) -> int:
        """How many requests the trouble has affected."""
        return self._mounts[plan.node_id].met_trouble()

    def release(self, plan: NodePlan) -> None:
        """Unmount the node's disk."""
        if (mount := self._mounts.pop(plan.node_id, None)) is not None:
            mount.close()


def put_back(backing: Path, mount_point: Path) -> None:
    """Unmount a remaining mount, and move the files to the mount point. Safe when that has been done."""
    unmount(mount_point)
    if not wait_until(lambda: not linux.is_mounted(mount_point), _UNMOUNT_TIMEOUT_S):
        get = "" if shutil.which("fusermount3") else "apt-get install fuse3, and "
        raise EnvironmentFailed(
            f"expected {mount_point} to be unmounted, found it mounted: {get}fusermount3 -uz {mount_point}"
        )
    if (backing / TREE).exists():
        (backing / TREE).replace(mount_point)
    shutil.rmtree(backing, ignore_errors=True)


def probe() -> str:
    """Mount one, and check that it loses unsynced data and keeps synced data. Raises with the reason if not."""
    if shutil.which("fusermount3") is None:
        raise EnvironmentFailed("no program fusermount3", Missing("program", "fusermount3"))
    if importlib.util.find_spec("mfusepy") is None:
        raise EnvironmentFailed("no Python package mfusepy", Missing("Python package", "mfusepy"))
    if not Path(_MOUNTED).exists():
        raise EnvironmentFailed(
            f"no file {_MOUNTED}, and fusermount3 does not unmount without", Missing("file", _MOUNTED)
        )
    os.close(os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC))  # as fusermount3 does, as this user
    with tempfile.TemporaryDirectory(prefix="harrow-probe-") as directory:
        disk = Path(directory, "disk")
        mount = FuseMount(Path(directory, "backing"), disk, {})
        try:
            with (disk / "probe").open("wb", buffering=0) as file:
                file.write(bytes(1000))
                os.fsync(file.fileno())
                file.write(bytes(500))
            sync_directory(disk)
            loss = mount.crash()
        finally:
            mount.close()
    if loss.files != {"probe": (1500, 1000)}:
        raise EnvironmentFailed(f"expected a crash to take 500 bytes of 1500, found {dict(loss.files)}")
    return "mount and crash work"
