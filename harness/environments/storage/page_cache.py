"""Mechanisms to lose a node's page cache: a disk per node that loses unsynced data.

| name | how | needs |
|---|---|---|
| `ext4` | an ext4 image on a loop device, shut down without flushing its journal, and mounted again | root, e2fsprogs |
| `fuse` | a file system of our own that tracks what was synced and undoes the rest | FUSE, mfusepy |
| `page-cache` | the system under test keeps a ledger of synced data itself | nothing |
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Literal, Protocol

from harness.environments.base import EnvironmentFailed, NodePlan, System
from harness.environments.causes import Missing
from harness.environments.machine.helpers.helper import HelperRefused
from harness.environments.machine.helpers.supervisor import Supervisor
from harness.store.journal import Journal
from nemesis.capabilities.disks import PageCacheLoss, Trouble

IMAGE_BYTES = 1 << 30
"""Size of a node's image; it is sparse, and uses only the space of written blocks."""


class PageCache(Protocol):
    """One mechanism, for all nodes of a run."""

    name: str
    how: str
    """Description for the report."""
    storage: Literal["files", "page-cache"]
    """The storage mode of the system under test."""

    def prepare(self, plan: NodePlan) -> None:
        """Create the node's disk at `plan.data`."""
        ...

    def lose(self, plan: NodePlan) -> PageCacheLoss:
        """Drop the dead node's unsynced data."""
        ...

    def release(self, plan: NodePlan) -> None:
        """Remove the disk, leaving its files at `plan.data`. Safe when there is none."""
        ...

    def view(self, plan: NodePlan) -> Path:
        """The path at which the harness sees the node's files."""
        ...

    def changed_behind(self, plan: NodePlan) -> None:
        """Called after the dead node's files were changed through `view`."""
        ...

    def make_trouble(self, plan: NodePlan, trouble: Trouble, delay_ms: int) -> None:
        """Make the disk fail from now on; `HelperRefused` for a trouble that this mechanism does not support."""
        ...

    def end_trouble(self, plan: NodePlan) -> None:
        """Make it work again."""
        ...

    def met_trouble(self, plan: NodePlan) -> int:
        """How many requests the trouble has affected."""
        ...


class Ext4Images:
    """Disks that the supervisor mounts where only it and its children see them."""

    name = "ext4"
    how = "an ext4 image per node, shut down without flushing and mounted again"
    storage: Literal["files", "page-cache"] = "files"

    def __init__(self, supervisor: Supervisor, journal: Journal, image_bytes: int = IMAGE_BYTES) -> None:
        self._supervisor = supervisor
        self._journal = journal
        self._image_bytes = image_bytes
        self._attached: set[int] = set()

    def prepare(self, plan: NodePlan) -> None:
        """Create an image and mount it."""
        image = _image(plan)
        plan.data.mkdir(parents=True, exist_ok=True)
        self._journal.record(
            "disk", node=plan.node_id, image=str(image.absolute()), mount_point=str(plan.data.absolute())
        )
        with image.open("wb") as file:
            file.truncate(self._image_bytes)
        make_file_system(image)
        self._supervisor.ask("attach-disk", image=str(image.absolute()), mount_point=str(plan.data.absolute()))
        self._attached.add(plan.node_id)

    def lose(self, plan: NodePlan) -> PageCacheLoss:
        """Shut the file system down, unmount it, mount it again."""
        loss = self._supervisor.ask("crash-disk", mount_point=str(plan.data.absolute()))
        files = {name: (before, after) for name, (before, after) in loss["files"].items()}
        return PageCacheLoss(self.name, loss["lost_bytes"], files)

    def release(self, plan: NodePlan) -> None:
        """Copy the files out of the image, unmount it and delete it."""
        if plan.node_id in self._attached:
            self._attached.remove(plan.node_id)
            copy = plan.data.with_name("data.copy").absolute()
            self._supervisor.ask("detach-disk", mount_point=str(plan.data.absolute()), copy=str(copy))
            copy.replace(plan.data)
        _image(plan).unlink(missing_ok=True)

    def view(self, plan: NodePlan) -> Path:
        """Only the supervisor and its children see the mount; we reach it through /proc."""
        return Path(f"/proc/{self._supervisor.pid}/root{plan.data.absolute()}")

    def changed_behind(self, plan: NodePlan) -> None:
        """Nothing to do: a file system keeps no other record."""

    def make_trouble(self, plan: NodePlan, trouble: Trouble, delay_ms: int) -> None:  # noqa: ARG002
        """Fill all free space."""
        if trouble != "full":
            raise HelperRefused(f"an ext4 image cannot be in trouble of the kind {trouble}; use --page-cache fuse")
        self._supervisor.ask("fill-disk", mount_point=str(plan.data.absolute()))

    def end_trouble(self, plan: NodePlan) -> None:
        """Free the space."""
        self._supervisor.ask("empty-disk", mount_point=str(plan.data.absolute()))

    def met_trouble(self, plan: NodePlan) -> int:
        """One if the disk is full: a file system does not count failed requests."""
        return int(os.statvfs(self.view(plan)).f_bavail == 0)


class Ledger:
    """The system under test records what it synced, and drops the rest on request (`System.lose_page_cache`)."""

    name = "page-cache"
    how = "the broker notes what it has synced, and all else is dropped"
    storage: Literal["files", "page-cache"] = "page-cache"

    def __init__(self, system: System) -> None:
        self._system = system

    def prepare(self, plan: NodePlan) -> None:
        """Create the data directory."""
        plan.data.mkdir(parents=True, exist_ok=True)

    def lose(self, plan: NodePlan) -> PageCacheLoss:
        """Request it from the system."""
        files = self._system.lose_page_cache(plan)
        return PageCacheLoss(self.name, sum(max(0, before - after) for before, after in files.values()), files)

    def release(self, plan: NodePlan) -> None:
        """Nothing to do."""

    def view(self, plan: NodePlan) -> Path:
        """Ordinary files."""
        return plan.data

    def changed_behind(self, plan: NodePlan) -> None:
        """Notify the system, which keeps the ledger."""
        self._system.disk_changed(plan)

    def make_trouble(self, plan: NodePlan, trouble: Trouble, delay_ms: int) -> None:  # noqa: ARG002
        """Not supported: ordinary files are on the machine's own disk."""
        raise HelperRefused(f"the machine's own disk shall not be in trouble of the kind {trouble}")

    def end_trouble(self, plan: NodePlan) -> None:
        """There is none."""

    def met_trouble(self, plan: NodePlan) -> int:  # noqa: ARG002
        """There is none."""
        return 0


def find_mkfs() -> str | None:
    """The path of mkfs.ext4, which is often not in a plain user's PATH."""
    return shutil.which("mkfs.ext4", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def make_file_system(image: Path) -> None:
    """Format an image with an empty ext4."""
    program = find_mkfs()
    if program is None:
        raise EnvironmentFailed("expected the program mkfs.ext4, found none", Missing("program", "mkfs.ext4"))
    made = subprocess.run([program, "-q", "-F", image], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        raise EnvironmentFailed(f"expected mkfs.ext4 to format {image}, found: {made.stderr.strip()}")


def _image(plan: NodePlan) -> Path:
    return plan.directory / "disk.img"
