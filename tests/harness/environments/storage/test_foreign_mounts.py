"""Disks that are also mounted in another process's mount namespace, created while they were mounted."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.environments.machine.kernel.process_identity import wait_until
from harness.environments.storage.disks import Disks
from harness.environments.storage.fuse import FuseMount
from harness.environments.storage.page_cache import make_file_system
from tests.harness.environments.conftest import need

pytestmark = pytest.mark.root


@contextmanager
def somebody_with_a_copy(mount_point: Path) -> Iterator[None]:
    with subprocess.Popen(["unshare", "--mount", "sleep", "600"]) as process:
        mounts = Path(f"/proc/{process.pid}/mountinfo")
        own = Path("/proc/self/ns/mnt").readlink()
        assert wait_until(lambda: Path(f"/proc/{process.pid}/ns/mnt").readlink() != own, 5)
        assert str(mount_point) in mounts.read_text()
        yield
        process.kill()


def test_an_ext4_disk_can_crash_and_is_usable_again(tmp_path: Path) -> None:
    need("ext4")
    image, mount_point = tmp_path / "disk.img", tmp_path / "disk"
    mount_point.mkdir()
    with image.open("wb") as file:
        file.truncate(16 << 20)
    make_file_system(image)
    disks = Disks()
    disks.attach(image, mount_point)
    try:
        with somebody_with_a_copy(mount_point):
            for round_ in range(3):
                kept = mount_point / f"kept-{round_}"
                with kept.open("wb") as file:
                    file.write(b"x" * 1000)
                    file.flush()
                    os.fsync(file.fileno())
                    file.write(b"y" * 500)
                assert disks.crash(mount_point)["lost_bytes"] == 500
                assert kept.read_bytes() == b"x" * 1000
    finally:
        disks.detach(mount_point, tmp_path / "copy")
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == ["kept-0", "kept-1", "kept-2"]


def test_a_fuse_disk_can_be_taken_away(tmp_path: Path) -> None:
    need("fuse")
    mount = FuseMount(tmp_path / "backing", tmp_path / "disk", {})
    with somebody_with_a_copy(tmp_path / "disk"):
        (tmp_path / "disk" / "kept").write_bytes(b"x" * 1000)
        began = time.monotonic()
        mount.close()
        assert time.monotonic() - began < 10
        assert (tmp_path / "disk" / "kept").read_bytes() == b"x" * 1000
