"""Ways to lose a node's page cache: a disk per node that forgets what was not synced.

| name | how | needs |
|---|---|---|
| `ext4` | an ext4 image on a loop device, shut down without flushing its journal, and mounted again | root, e2fsprogs |
| `fuse` | a file system of our own that remembers what was synced and takes back the rest | FUSE, mfusepy |
| `page-cache` | the system under test keeps that ledger itself | nothing |
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
"""Size of a node's image; it is sparse, and takes the room of what was written."""


class PageCache(Protocol):
    """One mechanism, for all nodes of a run."""

    name: str
    how: str
    """In words, for the report."""
    storage: Literal["files", "page-cache"]
    """What the system under test must do itself."""

    def prepare(self, plan: NodePlan) -> None:
        """Make the node's disk and have it at `plan.data`."""
        ...

    def lose(self, plan: NodePlan) -> PageCacheLoss:
        """Drop what the dead node had not synced."""
        ...

    def release(self, plan: NodePlan) -> None:
        """Take the disk away, leaving its files at `plan.data`. Safe when there is none."""
        ...

    def view(self, plan: NodePlan) -> Path:
        """Where the harness sees the node's files."""
        ...

    def changed_behind(self, plan: NodePlan) -> None:
        """Hear that the dead node's files were changed through `view`."""
        ...

    def make_trouble(self, plan: NodePlan, trouble: Trouble, delay_ms: int) -> None:
        """Have the disk fail from now on; `HelperRefused` for a trouble that this mechanism cannot make."""
        ...

    def end_trouble(self, plan: NodePlan) -> None:
        """Have it work again."""
        ...

    def met_trouble(self, plan: NodePlan) -> int:
        """How many requests have met with trouble."""
        ...


class Ext4Images:
    """Disks that the keeper mounts where only it and its children see them."""

    name = "ext4"
    how = "an ext4 image per node, shut down without flushing and mounted again"
    storage: Literal["files", "page-cache"] = "files"

    def __init__(self, keeper: Supervisor, journal: Journal, image_bytes: int = IMAGE_BYTES) -> None:
        self._keeper = keeper
        self._journal = journal
        self._image_bytes = image_bytes
        self._attached: set[int] = set()

    def prepare(self, plan: NodePlan) -> None:
        """Make an image and mount it."""
        image = _image(plan)
        plan.data.mkdir(parents=True, exist_ok=True)
        self._journal.record(
            "disk", node=plan.node_id, image=str(image.absolute()), mount_point=str(plan.data.absolute())
        )
        with image.open("wb") as file:
            file.truncate(self._image_bytes)
        make_file_system(image)
        self._keeper.ask("attach-disk", image=str(image.absolute()), mount_point=str(plan.data.absolute()))
        self._attached.add(plan.node_id)

    def lose(self, plan: NodePlan) -> PageCacheLoss:
        """Shut the file system down, unmount it, mount it again."""
        loss = self._keeper.ask("crash-disk", mount_point=str(plan.data.absolute()))
        files = {name: (before, after) for name, (before, after) in loss["files"].items()}
        return PageCacheLoss(self.name, loss["lost_bytes"], files)

    def release(self, plan: NodePlan) -> None:
        """Copy the files out of the image, unmount it and delete it."""
        if plan.node_id in self._attached:
            self._attached.remove(plan.node_id)
            copy = plan.data.with_name("data.copy").absolute()
            self._keeper.ask("detach-disk", mount_point=str(plan.data.absolute()), copy=str(copy))
            copy.replace(plan.data)
        _image(plan).unlink(missing_ok=True)

    def view(self, plan: NodePlan) -> Path:
        """The mount is seen by the keeper and its children alone; /proc shows it to us."""
        return Path(f"/proc/{self._keeper.pid}/root{plan.data.absolute()}")

    def changed_behind(self, plan: NodePlan) -> None:
        """Nothing to do: a file system remembers nothing else."""

    def make_trouble(self, plan: NodePlan, trouble: Trouble, delay_ms: int) -> None:  # noqa: ARG002
        """Take all the room that there is."""
        if trouble != "full":
            raise HelperRefused(f"an ext4 image cannot be in trouble of the kind {trouble}; use --page-cache fuse")
        self._keeper.ask("fill-disk", mount_point=str(plan.data.absolute()))

    def end_trouble(self, plan: NodePlan) -> None:
        """Give the room back."""
        self._keeper.ask("empty-disk", mount_point=str(plan.data.absolute()))

    def met_trouble(self, plan: NodePlan) -> int:
        """A file system does not count who finds it full: one, if it is."""
        return int(os.statvfs(self.view(plan)).f_bavail == 0)


class Ledger:
    """The system under test knows what it synced, and drops the rest when told (`System.lose_page_cache`)."""

    name = "page-cache"
    how = "a ledger in the broker's own storage of what was synced; the rest is dropped"
    storage: Literal["files", "page-cache"] = "page-cache"

    def __init__(self, system: System) -> None:
        self._system = system

    def prepare(self, plan: NodePlan) -> None:
        """Make the data directory."""
        plan.data.mkdir(parents=True, exist_ok=True)

    def lose(self, plan: NodePlan) -> PageCacheLoss:
        """Leave it to the system."""
        files = self._system.lose_page_cache(plan)
        return PageCacheLoss(self.name, sum(max(0, before - after) for before, after in files.values()), files)

    def release(self, plan: NodePlan) -> None:
        """Nothing to do."""

    def view(self, plan: NodePlan) -> Path:
        """Ordinary files."""
        return plan.data

    def changed_behind(self, plan: NodePlan) -> None:
        """Tell the system, whose ledger it is."""
        self._system.disk_changed(plan)

    def make_trouble(self, plan: NodePlan, trouble: Trouble, delay_ms: int) -> None:  # noqa: ARG002
        """Ordinary files are on the machine's own disk."""
        raise HelperRefused(f"the machine's own disk shall not be in trouble of the kind {trouble}")

    def end_trouble(self, plan: NodePlan) -> None:
        """There is none."""

    def met_trouble(self, plan: NodePlan) -> int:  # noqa: ARG002
        """There is none."""
        return 0


def find_mkfs() -> str | None:
    """The program that makes an ext4; it is often not in a plain user's path."""
    return shutil.which("mkfs.ext4", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def make_file_system(image: Path) -> None:
    """Put an empty ext4 into an image."""
    program = find_mkfs()
    if program is None:
        raise EnvironmentFailed("expected the program mkfs.ext4, found none", Missing("program", "mkfs.ext4"))
    made = subprocess.run([program, "-q", "-F", image], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        raise EnvironmentFailed(f"expected mkfs.ext4 to format {image}, found: {made.stderr.strip()}")


def _image(plan: NodePlan) -> Path:
    return plan.directory / "disk.img"
