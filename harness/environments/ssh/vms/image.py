"""Builds the boot image of a VM from Debian packages: a kernel, an initramfs and a root file system.

This machine's `apt-get` downloads the packages with all dependencies, as if nothing were installed; they are unpacked
without running their scripts. No root is needed: nothing is mounted, `mke2fs -d` fills the file system, and the
initramfs is written here (cpio "newc": Documentation/driver-api/early-userspace).
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import paramiko

from common.directories import cache_directory
from harness.environments.base import EnvironmentFailed
from harness.environments.ssh.vms import guest
from harness.environments.ssh.vms.probe import need_programs
from harness.environments.storage.page_cache import find_mkfs

_MAGIC = "070701"
_END = "TRAILER!!!"
_ALIGNMENT = 4


class ArchiveMember(NamedTuple):
    """A file or directory, by its `mode` (stat(2))."""

    name: str
    mode: int
    data: bytes = b""


def cpio_archive(entries: Iterable[ArchiveMember]) -> bytes:
    """The compressed archive of these entries; directories must precede their contents."""
    packed = b"".join(_packed(number, entry) for number, entry in enumerate(entries, 1))
    return gzip.compress(packed + _packed(0, ArchiveMember(_END, 0)), 1)


def _packed(inode: int, entry: ArchiveMember) -> bytes:
    name = entry.name.encode() + b"\0"
    links = 2 if entry.mode & 0o040000 else 1
    fields = (inode, entry.mode, 0, 0, links, 0, len(entry.data), 0, 0, 0, 0, len(name), 0)
    header = _MAGIC.encode() + b"".join(b"%08X" % field for field in fields) + name
    return _aligned(header) + _aligned(entry.data)


def _aligned(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGNMENT)


PACKAGES = ("busybox-static", "dash", "fuse3", "iproute2", "nftables", "openssh-server", "python3", "python3-crc32c")
KERNELS = ("linux-image-cloud-amd64", "linux-image-virtual", "linux-image-amd64")
_NOT_NEEDED = re.compile(
    r"usr/(share/(doc|man|locale|info|perl|zoneinfo|lintian|bash-completion)|lib/[^/]+/(perl|gconv)|lib/systemd)/"
)
_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")
_MERGED = ("bin", "lib", "lib32", "lib64", "sbin")
_EMPTY = ("dev", "etc", "proc", "root", "run", "sys", "tmp", "var/lib")
_ROOM_BYTES = 48 << 20
_FETCH_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class BootImage:
    """The files that a VM boots from, and its SSH keys."""

    directory: Path

    @property
    def kernel(self) -> Path:
        """The kernel."""
        return self.directory / "kernel"

    @property
    def first(self) -> Path:
        """The initramfs."""
        return self.directory / "first.cpio.gz"

    @property
    def root(self) -> Path:
        """The root file system; never written to."""
        return self.directory / "root.img"

    @property
    def user_key(self) -> Path:
        """The private key for logging in as root."""
        return self.directory / "user"

    @property
    def host_key(self) -> str:
        """The public key of its SSH server, in the format of `known_hosts`."""
        return (self.directory / "host.pub").read_text().strip()


def image() -> BootImage:
    """The image, built if it is not cached. Raises `EnvironmentFailed`."""
    recipe = hashlib.sha256("\n".join([Path(__file__).read_text(), guest.recipe(), *_release()]).encode()).hexdigest()[
        :16
    ]
    directory = cache_directory() / "vms" / recipe
    if not directory.exists():
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory.parent, prefix="making-") as place:
            made = Path(place, "image")
            made.mkdir()
            _make(made, Path(place))
            try:
                made.rename(directory)
            except OSError:
                if not directory.exists():  # another process was faster
                    raise
    return BootImage(directory)


def _release() -> Iterator[str]:
    """The distribution's release, which is an input of the image."""
    release = Path("/etc/os-release")
    yield from (line for line in (release.read_text().splitlines() if release.exists() else ()) if "VERSION" in line)


def _make(target: Path, place: Path) -> None:
    need_programs()
    packages = _fetch(place)
    root = place / "root"
    for name in (
        *(f"usr/{merged}" for merged in _MERGED),
        "dev",
        "proc",
        "sys",
        "run",
        "tmp",
        "root",
        "var/lib",
        "etc",
    ):
        (root / name).mkdir(parents=True, exist_ok=True)
    for merged in _MERGED:
        (root / merged).symlink_to(f"usr/{merged}")
    for fetched in packages:
        _unpack(fetched, root)
    version = next((root / "usr/lib/modules").iterdir()).name
    shutil.move(next((root / "boot").glob("vmlinuz-*")), target / "kernel")
    shutil.rmtree(root / "boot")
    first = _modules(root, version)
    _furnish(root, target)
    (target / "first.cpio.gz").write_bytes(cpio_archive(_first(root, first)))
    _fill(root, target / "root.img")


def _fetch(place: Path) -> Sequence[Path]:
    status = place / "status"  # empty: as if nothing were installed
    status.touch()
    packages = place / "packages"
    (packages / "partial").mkdir(parents=True)
    apt = [
        "apt-get",
        "-qq",
        "-o",
        f"Dir::State::status={status}",
        "-o",
        f"Dir::Cache::archives={packages}",
        "-o",
        "Debug::NoLocking=1",
        "-o",
        "APT::Sandbox::User=root",
    ]
    _run([*apt, "--no-install-recommends", "--download-only", "-y", "install", *PACKAGES])
    _run([*apt, "download", _kernel()], packages)
    return sorted(packages.glob("*.deb"))


def _kernel() -> str:
    """The package with the kernel: a dependency of these packages, whose name contains the version."""
    for name in KERNELS:
        output = subprocess.run(["apt-cache", "depends", name], capture_output=True, text=True, check=False).stdout
        found = re.search(r"Depends: (linux-image-\d\S*)", output)
        if found is not None:
            return found[1]
    raise EnvironmentFailed(f"expected one of the packages {', '.join(KERNELS)}, found none; apt-get update")


def _unpack(package: Path, root: Path) -> None:
    command = ["dpkg-deb", "--fsys-tarfile", str(package)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as unpacking,
        tarfile.open(fileobj=unpacking.stdout, mode="r|") as members,
    ):
        members.extraction_filter = _as_it_is
        for member in members:
            member.name = _merged(member.name)
            member.mode &= 0o777  # no setuid: the files belong to the user who builds the image
            if member.islnk():
                member.linkname = _merged(member.linkname)
            if member.isdir():
                (root / member.name).mkdir(parents=True, exist_ok=True)
            elif not member.isdev() and not _NOT_NEEDED.match(member.name):
                members.extract(member, root)
    if unpacking.returncode != 0:
        raise EnvironmentFailed(f"expected dpkg-deb to unpack {package.name}, found status {unpacking.returncode}")


def _as_it_is(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo:  # noqa: ARG001
    """Extract without a filter: apt has verified the package. Python before 3.11.4 ignores this."""
    return member


def _merged(name: str) -> str:
    """A file's path in a system whose /bin, /lib and so on are links into /usr."""
    name = name.removeprefix("./").removeprefix("/")
    return f"usr/{name}" if name.split("/", 1)[0] in _MERGED else name


def _modules(root: Path, version: str) -> Sequence[Path]:
    """Delete all modules that a VM does not need; returns those for the root file system, in load order."""
    place = root / "usr/lib/modules" / version
    found = {_module(path): path for path in place.rglob("*.ko*")}
    needs = {name: _needs(path) for name, path in found.items()}

    def closure(names: Sequence[str]) -> list[str]:
        """Modules with their dependencies first. A module built into the kernel has no file."""
        there = [name for name in names if name in found]
        return list(dict.fromkeys(one for name in there for one in (*closure(needs[name]), name)))

    kept = closure((*guest.FIRST_MODULES, *guest.MODULES))
    loadable = {name: found[name].with_name(f"{name}.ko") for name in kept}
    contents = {name: _module_file(found[name]) for name in kept}
    for path in found.values():
        path.unlink()
    for name, path in loadable.items():
        path.write_bytes(contents[name])
    lines = []
    for name, path in loadable.items():
        before = [f" {loadable[one].relative_to(place)}" for one in reversed(closure(needs[name]))]
        lines.append(f"{path.relative_to(place)}:{''.join(before)}\n")
    (place / "modules.dep").write_text("".join(lines))
    return [loadable[name] for name in closure(guest.FIRST_MODULES)]


def _module(path: Path) -> str:
    return path.name.split(".")[0].replace("-", "_")


def _module_file(path: Path) -> bytes:
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data


def _needs(path: Path) -> Sequence[str]:
    """The dependencies of a module, from its section `.modinfo`."""
    found = _DEPENDS.search(_module_file(path))
    return [name.replace("-", "_") for name in found[1].decode().split(",") if name] if found else []


def _furnish(root: Path, target: Path) -> None:
    """Create the needed files that the packages' scripts would have created."""
    for name, text in guest.FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).unlink(missing_ok=True)
        (root / name).write_text(text)
        (root / name).chmod(0o755 if text.startswith("#!") else 0o644)
    (root / "usr/bin/sh").unlink(missing_ok=True)
    (root / "usr/bin/sh").symlink_to("dash")  # busybox's own shell would prefer its applets to programs
    for name in guest.APPLETS:
        if not (root / "usr/bin" / name).exists() and not (root / "usr/sbin" / name).exists():
            (root / "usr/bin" / name).symlink_to("busybox")
    keys = {name: paramiko.ECDSAKey.generate() for name in ("host", "user")}
    keys["user"].write_private_key_file(str(target / "user"))
    keys["host"].write_private_key_file(str(root / "etc/ssh/host_key"))
    public = {name: f"{key.get_name()} {key.get_base64()}\n" for name, key in keys.items()}
    (target / "host.pub").write_text(public["host"])
    (root / "etc/ssh/authorized").write_text(public["user"])


def _first(root: Path, modules: Sequence[Path]) -> Iterator[ArchiveMember]:
    for name in ("bin", "dev", "modules", "over", "proc", "root", "under"):
        yield ArchiveMember(name, 0o040755)
    yield ArchiveMember("bin/busybox", 0o100755, (root / "usr/bin/busybox").read_bytes())
    yield ArchiveMember("init", 0o100755, guest.first_script([module.name for module in modules]).encode())
    for module in modules:
        yield ArchiveMember(f"modules/{module.name}", 0o100644, module.read_bytes())


def _fill(root: Path, target: Path) -> None:
    mkfs = find_mkfs()
    assert mkfs is not None
    size = sum(path.lstat().st_size + 4096 for path in root.rglob("*")) + _ROOM_BYTES
    with target.open("wb") as file:
        file.truncate(size)
    _run([mkfs, "-q", "-F", "-b", "4096", "-O", "^has_journal", "-m", "0", "-d", str(root), str(target)])


def _run(command: Sequence[str], directory: Path | None = None) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=_FETCH_TIMEOUT_S)
    if done.returncode != 0:
        complaint = [line for line in done.stderr.splitlines() if line.startswith(("E:", command[0]))]
        reason = (complaint or done.stderr.strip().splitlines() or [f"status {done.returncode}"])[0]
        raise EnvironmentFailed(f"expected {command[0]} to do its part of a VM, found: {reason}")
