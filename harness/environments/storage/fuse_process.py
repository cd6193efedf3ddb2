"""Serves the forgetful file system: one FUSE mount, for one node.

    python -m harness.environments.storage.fuse_process DESCRIPTOR

Requests are JSON lines over a socket, each with one answer: first `{"backing": …, "mount_point": …}`, answered once it
is mounted; then `{"do": "crash"}`, answered with the losses, or a request for trouble (errors, stalls, slowness, false
syncs). It unmounts and exits when that socket closes.
"""

# ruff: noqa: ARG002 - the operations have the signatures that mfusepy gives them

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from ctypes.util import find_library
from pathlib import Path
from typing import Any, Literal

from harness.environments.causes import Refused, to_json
from harness.environments.machine.helpers.jsonl import receive_line
from harness.environments.machine.kernel import linux
from harness.environments.storage.forgetful import ForgetfulTree
from nemesis.capabilities.disks import Trouble

Request = Literal["read", "write", "fsync", "create"]

_FAILS: dict[Trouble, tuple[frozenset[Request], int]] = {
    "full": (frozenset({"write", "create"}), errno.ENOSPC),
    "read-error": (frozenset({"read"}), errno.EIO),
    "write-error": (frozenset({"write", "create"}), errno.EIO),
    "fsync-error": (frozenset({"fsync"}), errno.EIO),
    "error": (frozenset({"read", "write", "fsync", "create"}), errno.EIO),
}


class Troubles:
    """The current trouble. Safe to use from several threads: one sets it, another applies it to requests."""

    def __init__(self) -> None:
        self._trouble: Trouble | None = None
        self._delay_s = 0.0
        self._over = threading.Event()
        self._over.set()
        self.met = 0
        """How many requests it has affected."""

    def make(self, trouble: Trouble, delay_ms: int) -> None:
        """Start a trouble."""
        self.end()
        self.met = 0
        self._delay_s = delay_ms / 1000
        self._over.clear()
        self._trouble = trouble

    def end(self) -> None:
        """End the trouble; stalled and slow requests continue at once."""
        self._trouble = None
        self._over.set()

    def meet(self, request: Request) -> bool:
        """Apply the current trouble, if any, to a request. Raises `OSError`; False for a sync to be faked."""
        trouble = self._trouble
        if trouble is None:
            return True
        if trouble in _FAILS:
            requests, number = _FAILS[trouble]
            if request in requests:
                self.met += 1
                raise OSError(number, os.strerror(number))
        elif trouble == "stall":
            self.met += 1
            self._over.wait()
        elif trouble == "slow" or (trouble == "slow-fsync" and request == "fsync"):
            self.met += 1
            self._over.wait(self._delay_s)
        elif trouble in ("fsync-lies", "fsync-fails-then-lies") and request == "fsync":
            self.met += 1
            if trouble == "fsync-fails-then-lies" and self.met == 1:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return False
        return True


_END_TIMEOUT_S = 1.0
"""Timeout for the end of the file system after it is unmounted."""

_LIBFUSE = "libfuse3.so.3"

_STANDARD_ERROR = 2
_COMPLAINTS_BYTES = 4096
_REFUSALS = (errno.EPERM, errno.EACCES, errno.ENODEV, errno.ENOENT)

GRAVEYARD = "removed"
TREE = "tree"

_STATUS = ("st_mode", "st_nlink", "st_uid", "st_gid", "st_size", "st_blocks")
_ROOM = ("f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_favail", "f_ffree", "f_files", "f_frsize", "f_namemax")


def _operations(
    base: type, tree: ForgetfulTree, lock: threading.Lock, mounted: threading.Event, troubles: Troubles
) -> Any:  # noqa: ANN401
    """The file system's operations, as a subclass of mfusepy's (which need not be installed).

    A handle is a descriptor of the backing file. With a handle the path may be missing: the file may have lost its
    name.
    """

    class Operations(base):  # type: ignore[misc]
        use_ns = True
        flag_nullpath_ok = True
        flag_nopath = True

        def init(self, path: str) -> None:
            mounted.set()

        def getattr(self, path: str | None, fh: int | None = None) -> Mapping[str, int]:
            status = os.fstat(fh) if fh is not None else os.lstat(f"{tree.root}{path}")
            times = {"st_atime": status.st_atime_ns, "st_mtime": status.st_mtime_ns, "st_ctime": status.st_ctime_ns}
            return {name: getattr(status, name) for name in _STATUS} | times

        def opendir(self, path: str) -> int:
            return os.open(f"{tree.root}{path}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

        def readdir(self, path: str | None, fh: int) -> list[str]:
            return [".", "..", *os.listdir(fh)]

        def releasedir(self, path: str | None, fh: int) -> int:
            os.close(fh)
            return 0

        def statfs(self, path: str) -> Mapping[str, int]:
            room = os.statvfs(tree.root)
            return {name: getattr(room, name) for name in _ROOM}

        def create(self, path: str, mode: int) -> int:
            troubles.meet("create")
            with lock:
                return tree.create(path, mode)

        def open(self, path: str, flags: int) -> int:
            descriptor = os.open(f"{tree.root}{path}", os.O_RDWR | os.O_CLOEXEC)
            if flags & os.O_TRUNC:
                with lock:
                    tree.truncate(descriptor, 0)
            return descriptor

        def read(self, path: str | None, size: int, offset: int, fh: int) -> bytes:
            troubles.meet("read")
            return os.pread(fh, size, offset)

        def write(self, path: str | None, data: bytes, offset: int, fh: int) -> int:
            troubles.meet("write")
            with lock:
                return tree.write(fh, data, offset)

        def truncate(self, path: str | None, length: int, fh: int | None = None) -> None:
            descriptor = fh if fh is not None else self.open(str(path), 0)
            try:
                with lock:
                    tree.truncate(descriptor, length)
            finally:
                if fh is None:
                    os.close(descriptor)

        def fsync(self, path: str | None, datasync: int, fh: int) -> int:
            if troubles.meet("fsync"):
                with lock:
                    tree.sync(fh)
            return 0

        def fsyncdir(self, path: str | None, datasync: int, fh: int) -> int:
            if troubles.meet("fsync"):
                with lock:
                    tree.sync_directory(fh)
            return 0

        def release(self, path: str | None, fh: int) -> int:
            os.close(fh)
            return 0

        def mkdir(self, path: str, mode: int) -> None:
            troubles.meet("create")
            with lock:
                tree.make_directory(path, mode)

        def unlink(self, path: str) -> None:
            with lock:
                tree.remove(path)

        def rmdir(self, path: str) -> None:
            if os.listdir(f"{tree.root}{path}"):  # noqa: PTH208
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
            with lock:
                tree.remove(path)

        def rename(self, old: str, new: str, flags: int = 0) -> None:
            with lock:
                tree.rename(old, new)

        def chmod(self, path: str | None, mode: int) -> None:
            os.chmod(self._named(path), mode)  # noqa: PTH101

        def utimens(self, path: str | None, times: tuple[int, int]) -> None:
            os.utime(self._named(path), ns=times)

        def _named(self, path: str | None) -> str:
            if path is None:  # mfusepy does not pass the handle
                raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
            return f"{tree.root}{path}"

    return Operations()


def _name_library() -> None:
    """Set the library for mfusepy, which looks for it with ldconfig and compilers, which a small VM lacks."""
    if "FUSE_LIBRARY_PATH" in os.environ or find_library("fuse") or find_library("fuse3"):
        return
    try:
        ctypes.CDLL(_LIBFUSE)
    except OSError:
        return  # it is missing, and mfusepy reports that
    os.environ["FUSE_LIBRARY_PATH"] = _LIBFUSE


def _mount(base: type) -> Any:  # noqa: ANN401
    """The mount of mfusepy, fixed: for `ftruncate` it does not pass the handle."""

    class Mount(base):  # type: ignore[misc]
        def truncate_fuse_3(self, path: bytes | None, length: int, fip: Any) -> Any:  # noqa: ANN401
            name = None if path is None else os.fsdecode(path)
            return self.operations.truncate(name, length, fip.contents.fh if fip else None)

    return Mount


class _Complaints:
    """Captures standard error until the file system is mounted: FUSE reports errors only there."""

    def __init__(self) -> None:
        self._before = os.dup(_STANDARD_ERROR)
        self._kept = os.memfd_create("complaints", os.MFD_CLOEXEC)
        os.dup2(self._kept, _STANDARD_ERROR)

    def end(self) -> None:
        """Restore standard error."""
        os.dup2(self._before, _STANDARD_ERROR)

    def words(self) -> str:
        """The captured text, in one line."""
        return "; ".join(os.pread(self._kept, _COMPLAINTS_BYTES, 0).decode(errors="replace").split("\n")).strip("; ")


def _number(words: str) -> int:
    """The error number of FUSE's message; 0 if it has none."""
    return next((number for number in _REFUSALS if os.strerror(number) in words), 0)


def unmount(mount_point: Path) -> None:
    """Unmount a FUSE file system, if there is one, even if its process is dead or files are open."""
    if not linux.is_mounted(mount_point):
        return
    try:
        subprocess.run(["fusermount3", "-u", "-z", mount_point], capture_output=True, check=False)
    except FileNotFoundError:  # removed since the mount, or not in our path; root does not need it
        with contextlib.suppress(PermissionError):
            linux.unmount(mount_point, lazily=True)


def main() -> None:
    """Mount, and serve until the other end of the socket closes."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    harness = socket.socket(fileno=int(sys.argv[1]))
    harness.set_inheritable(False)
    line, _ = receive_line(harness)
    if not line:  # the harness has ended meanwhile
        return
    settings = json.loads(line)
    mount_point = Path(settings["mount_point"])
    tree = ForgetfulTree(Path(settings["backing"], TREE), Path(settings["backing"], GRAVEYARD))
    lock = threading.Lock()
    mounted = threading.Event()
    over = threading.Event()
    troubles = Troubles()

    def answer(reply: object) -> None:
        with contextlib.suppress(OSError):
            harness.sendall(json.dumps(reply).encode() + b"\n")

    def answer_requests() -> None:
        mounted.wait()
        if over.is_set():
            return
        complaints.end()
        answer({"result": None})
        while line := receive_line(harness)[0]:
            try:
                answer({"result": do(json.loads(line))})
            except OSError as error:
                answer({"error": str(error)})
        troubles.end()
        unmount(mount_point)
        # A mount namespace created meanwhile still has it mounted, and the kernel would not let this process exit.
        # All writes have reached this process already: the kernel buffers none.
        if not over.wait(_END_TIMEOUT_S):
            os._exit(0)

    def do(request: Mapping[str, Any]) -> object:
        match request:
            case {"do": "trouble", "trouble": trouble, "delay_ms": delay_ms}:
                troubles.make(trouble, delay_ms)
            case {"do": "end-trouble"}:
                troubles.end()
            case {"do": "met-trouble"}:
                return troubles.met
            case _:
                with lock:
                    lost_bytes, files = tree.crash()
                return {"lost_bytes": lost_bytes, "files": files}
        return None

    _name_library()
    try:
        import mfusepy
    except (ImportError, OSError) as error:
        answer({"error": str(error)})
        return
    complaints = _Complaints()
    answering = threading.Thread(target=answer_requests)
    answering.start()
    try:
        _mount(mfusepy.FUSE)(
            _operations(mfusepy.Operations, tree, lock, mounted, troubles),
            str(mount_point),
            foreground=True,
            nothreads=True,
            hard_remove=True,
            fsname="harrow",
            attr_timeout=0,
            entry_timeout=0,
            negative_timeout=0,
        )
    except RuntimeError as error:
        words = complaints.words()
        answer(
            {
                "error": f"the file system could not be mounted ({words or f'FUSE error {error}'})",
                "cause": to_json(Refused(_number(words), "mount of a FUSE file system")),
            }
        )
    finally:
        over.set()
        mounted.set()


if __name__ == "__main__":
    main()
