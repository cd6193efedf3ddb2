"""A VM with Debian's kernel, for causes that only a kernel of one's own can have: modules and settings of the kernel.

The processor is emulated, so only the capability in question is asked for.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tests.machines.doctor.causes import CONFIG_KEYS, MTAB, Visit
from tests.machines.doctor.installation import installation
from tests.machines.roots import cache, locked, root_of
from tests.machines.rows import Row

HERE = Path(__file__).parent
KERNEL = Row("kernel", "for doctor", packages=("fuse3", "iproute2", "kmod", "linux-image-amd64"))

_MIB = 1 << 20
_DISK_BYTES = 4096 * _MIB
_OUT_BYTES = 16 * _MIB
_MEMORY_MIB = 1024
_VM_TIMEOUT_S = 3000


def reports(visits: Sequence[Visit], sources: Path, place: Path) -> Mapping[str, dict[str, Any]]:
    """Visit one VM for one cause after the other; what doctor said each time, by the visits' names."""
    brought = place / "brought"
    shutil.copytree(sources, brought / "harrow")
    shutil.copytree(HERE, brought / "doctor")
    (brought / "config").mkdir()
    for number, visit in enumerate(visits):
        config = {name: value for name, value in asdict(visit).items() if name in CONFIG_KEYS}
        (brought / "config" / f"{number:02}.json").write_text(json.dumps(config))
    subprocess.run(["tar", "--create", "--file", place / "in", "--directory", brought, "."], check=True)
    with (place / "out").open("wb") as out:
        out.truncate(_OUT_BYTES)
    _boot(place)
    (place / "reports").mkdir()
    subprocess.run(["tar", "--extract", "--file", place / "out", "--directory", place / "reports"], check=True)
    found = {}
    for number, visit in enumerate(visits):
        report = place / "reports" / f"{number:02}.json"
        if not report.exists():
            raise RuntimeError(f"expected a report of {visit.name}, found: {Path(f'{report}.errors').read_text()}")
        found[visit.name] = json.loads(report.read_text())
    return found


def _boot(place: Path) -> None:
    root = root_of(KERNEL)
    (kernel,), (first,) = root.glob("boot/vmlinuz-*"), root.glob("boot/initrd.img-*")
    drives = [(_disk(), "on"), (place / "in", "on"), (place / "out", "off")]
    command = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-smp", "2", "-m", str(_MEMORY_MIB), "-nographic"]
    command += ["-no-reboot", "-kernel", str(kernel), "-initrd", str(first), "-nic", "none"]
    command += ["-append", "console=ttyS0 quiet panic=-1 root=/dev/vda rw init=/doctor-init"]
    for path, snapshot in drives:
        command += ["-drive", f"file={path},format=raw,if=virtio,snapshot={snapshot}"]
    with (place / "console").open("wb") as console:
        subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=console, stderr=console, check=True, timeout=_VM_TIMEOUT_S
        )


def _disk() -> Path:
    """The VM's disk: a root with a kernel's modules, and the installation. Made once."""
    init = (HERE / "init.sh").read_text()
    sources = (root_of(KERNEL), installation())
    key = hashlib.sha256(f"{[source.name for source in sources]} {init}".encode()).hexdigest()[:12]
    disk = cache() / f"doctor-vm-{key}.img"
    if not disk.exists():
        with locked(disk.name), tempfile.TemporaryDirectory(prefix=".vm-", dir=cache()) as directory:
            tree, unfinished = Path(directory, "tree"), Path(directory, "disk.img")
            for source in sources:
                subprocess.run(["cp", "--archive", "--reflink=auto", f"{source}/.", tree], check=True)
            shutil.rmtree(tree / "boot")
            (tree / "doctor-init").write_text(init)
            (tree / "doctor-init").chmod(0o755)
            with unfinished.open("wb") as file:
                file.truncate(_DISK_BYTES)
            subprocess.run(["mkfs.ext4", "-q", "-F", "-d", tree, unfinished], check=True)
            unfinished.rename(disk)
    return disk


_BLACKLIST = "echo 'blacklist {0}' >/etc/modprobe.d/{0}.conf"
_FORGET = "modprobe -r {0}; rm -f /dev/{1}; find /lib/modules -name '{0}.ko*' -delete; depmod"

IN_VM = (
    Visit(
        "namespaces",
        "user-namespaces-forbidden",
        prepare=("modprobe veth", "echo 0 >/proc/sys/kernel/unprivileged_userns_clone"),
    ),
    Visit("namespaces", "no-veth", prepare=("modprobe -r veth", _BLACKLIST.format("veth"))),
    Visit("shaping", "tun-not-loaded", prepare=("modprobe veth", _BLACKLIST.format("tun"))),
    Visit("shaping", "tun-unknown", prepare=(_FORGET.format("tun", "net/tun"),)),
    Visit("fuse", "fuse-not-loaded", prepare=(MTAB, _BLACKLIST.format("fuse"))),
    Visit("fuse", "fuse-unknown", prepare=(_FORGET.format("fuse", "fuse"),)),
    Visit("ext4", "loop-not-loaded", user="root", prepare=(_BLACKLIST.format("loop"),)),
    Visit("ext4", "loop-unknown", user="root", prepare=(_FORGET.format("loop", "loop-control"),)),
)
"""In the order in which they are visited: what a remedy has loaded, the next takes away for good."""


def asking_for_one(visit: Visit) -> Visit:
    """The same, with doctor asked for its capability alone."""
    return replace(visit, arguments=(visit.capability,))
