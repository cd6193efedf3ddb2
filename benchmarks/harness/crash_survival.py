"""Verifies over hundreds of crashes that synced data survives, byte for byte, and that unsynced data is lost.

    python -m benchmarks.harness.crash_survival ext4|fuse|vm [--crashes 300] [--seed 1]

`ext4` and `fuse` are disks of the environments on this machine: a process writes and is killed, and its disk loses what
it had not synced. `vm` is a QEMU VM whose power is cut: its process is killed, another is restored from the template,
and is given the disk. Each crash finds these files:

    log          grown by what is synced, and then by what is not: back to what was synced
    overwritten  written and synced once, then overwritten: as it was
    whole        written and synced: there
    fresh        never synced: not there, or empty

What is not synced is written after all that is: the sync of one file lets ext4 write some of another, too.
Exit status 1 if any file differs, 4 if this machine or user cannot have such a disk.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from common.atomic_files import sync_directory
from harness.environments.base import EnvironmentFailed, NodePlan
from harness.environments.machine.helpers.supervisor import Supervisor
from harness.environments.machine.helpers.supervisor_process import SupervisorSettings
from harness.environments.ssh.vms.template import Template, template
from harness.environments.ssh.vms.vm import Vm
from harness.environments.storage.fuse import FuseMounts, probe
from harness.environments.storage.page_cache import Ext4Images, PageCache, make_file_system
from harness.store.journal import Journal
from harness.terminal.exits import ExitStatus
from nemesis.capabilities.cluster import NodeError

RENEWED_AFTER = 25
"""Crashes after which the log is emptied, so that the time to read it stays bounded."""

MOST_BYTES = 60_000
DISK_BYTES = 256 << 20


class Round(NamedTuple):
    """What is written before a crash. Sizes in bytes."""

    number: int
    renewed: bool  # the log starts empty
    synced: int  # bytes that the log grows by
    unsynced: int
    whole: int
    fresh: int


class Found(NamedTuple):
    """Size and digest of a file."""

    size: int
    digest: str


class Disk(Protocol):
    """A disk that loses unsynced data when the process that writes to it is killed."""

    def crash_while_writing(self, what: Round) -> dict[str, Found]:
        """Write the data of the round, crash, and return the files that survived."""
        ...


def content(name: str, number: int, size: int) -> bytes:
    """The bytes that a round writes into a file: lines of numbers, which a shell can write as well."""
    lines = f"{name}-{number}\n".encode()
    return (lines * (size // len(lines) + 1))[:size]


class Expected:
    """The expected files after each round."""

    def __init__(self) -> None:
        self._log = b""
        self._overwritten = content("overwritten", 0, MOST_BYTES)

    def differences(self, what: Round, found: dict[str, Found]) -> Iterator[str]:
        """The files that differ from what is expected after a crash, one line each."""
        self._log = (b"" if what.renewed else self._log) + content("log", what.number, what.synced)
        wanted = {"log": self._log, "whole": content("whole", what.number, what.whole)}
        wanted["overwritten"] = self._overwritten
        for name, data in wanted.items():
            if found.get(name) != found_of(data):
                yield f"crash {what.number}: {name} is {found.get(name)}, expected {found_of(data)}"
        if found.get("fresh", found_of(b"")).size:
            yield f"crash {what.number}: {found['fresh'].size} bytes of a file that was never synced are there"


def found_of(data: bytes) -> Found:
    return Found(len(data), hashlib.md5(data).hexdigest())


def rounds(crashes: int, seed: int) -> Iterator[Round]:
    draw = random.Random(seed)
    for number in range(crashes):
        sizes = [1 + draw.randrange(MOST_BYTES) for _ in range(4)]
        yield Round(number, number % RENEWED_AFTER == 0, *sizes)


# --- on this machine ------------------------------------------------------------------------------------------------


class ForgetfulDisk:
    """A disk of the environments on this machine."""

    def __init__(self, plan: NodePlan, mechanism: PageCache) -> None:
        self._plan = plan
        self._mechanism = mechanism
        self._view = mechanism.view(plan)
        _write(self._view / "overwritten", content("overwritten", 0, MOST_BYTES), "wb", sync=True)
        sync_directory(self._view)

    def crash_while_writing(self, what: Round) -> dict[str, Found]:
        """Let a child write, and kill it."""
        ready, written_to = os.pipe()
        child = os.fork()
        if child == 0:
            self._write(what)
            os.write(written_to, b"!")
            signal.pause()
        os.close(written_to)
        written = os.read(ready, 1)
        os.close(ready)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert written == b"!", "the writer died by itself"
        self._mechanism.lose(self._plan)
        return {path.name: found_of(path.read_bytes()) for path in self._view.iterdir() if path.is_file()}

    def _write(self, what: Round) -> None:
        for name in ("whole", "fresh"):
            (self._view / name).unlink(missing_ok=True)
        sync_directory(self._view)
        _write(self._view / "log", content("log", what.number, what.synced), "wb" if what.renewed else "ab", sync=True)
        _write(self._view / "whole", content("whole", what.number, what.whole), "wb", sync=True)
        sync_directory(self._view)
        _write(self._view / "log", content("lost", what.number, what.unsynced), "ab", sync=False)
        _write(self._view / "overwritten", content("again", what.number, MOST_BYTES // 2), "r+b", sync=False)
        _write(self._view / "fresh", content("fresh", what.number, what.fresh), "wb", sync=False)


def _write(path: Path, data: bytes, mode: str, *, sync: bool) -> None:
    """Write a file. Without a sync it stays open until the kill."""
    descriptor = os.open(
        path,
        os.O_WRONLY | {"wb": os.O_CREAT | os.O_TRUNC, "ab": os.O_CREAT | os.O_APPEND, "r+b": 0}[mode],
        0o644,
    )
    while data:
        data = data[os.write(descriptor, data) :]
    if sync:
        os.fsync(descriptor)
        os.close(descriptor)


@contextmanager
def forgetful(kind: str, directory: Path) -> Iterator[Disk]:
    if kind == "fuse":
        probe()
    with ExitStack() as undo:
        supervisor = Supervisor(SupervisorSettings(network=False, mounts=kind == "ext4", endpoints=()), {})
        undo.callback(supervisor.close)
        journal = Journal(directory)
        plan = NodePlan(1, "broker", directory, directory / "data", directory / "socket", "files")
        mechanism: PageCache = Ext4Images(supervisor, journal) if kind == "ext4" else FuseMounts(journal, {})
        undo.callback(mechanism.release, plan)
        mechanism.prepare(plan)
        yield ForgetfulDisk(plan, mechanism)


# --- in a VM --------------------------------------------------------------------------------------------------------

_LIST = 'for f in /data/*; do [ -f "$f" ] && echo "${f##*/} $(busybox stat -c %s "$f") $(busybox md5sum <"$f")"; done'


class VmDisk:
    """The disk of a VM."""

    def __init__(self, supervisor: Supervisor, made: Template, directory: Path) -> None:
        self._supervisor, self._made, self._directory = supervisor, made, directory
        self._image = directory / "disk"
        with self._image.open("wb") as file:
            file.truncate(DISK_BYTES)
        make_file_system(self._image)
        self._vm = self._restored()
        self._vm.run(f"cd /data && {_made_of('overwritten', 0, MOST_BYTES)} | {_synced('overwritten')} && cd /")

    def crash_while_writing(self, what: Round) -> dict[str, Found]:
        """Let the VM write, and kill it; another VM reads the files."""
        number = what.number
        self._vm.run(
            f"set -e; cd /data; rm -f whole fresh; {'rm -f log;' if what.renewed else ''} "
            f"{_made_of('log', number, what.synced)} | {_synced('log')}; "
            f"{_made_of('whole', number, what.whole)} | {_synced('whole')}; "
            f"{_made_of('lost', number, what.unsynced)} >>log; "
            f"{_made_of('again', number, MOST_BYTES // 2)} | busybox dd of=overwritten conv=notrunc 2>/dev/null; "
            f"{_made_of('fresh', number, what.fresh)} >fresh; cd /; set +e"
        )
        self._vm.kill()
        self._vm = self._restored()
        lines = [line.split() for line in self._vm.run(_LIST).splitlines() if line.strip()]
        return {name: Found(int(size), digest) for name, size, digest, _ in lines}

    def _restored(self) -> Vm:
        vm = Vm(self._supervisor, self._made.image, self._directory, "vm", self._made.accelerator, self._made.memory)
        vm.plug_disk(self._image)
        vm.run(
            "for try in $(seq 200); do [ -e /dev/vdb ] && break; sleep 0.05; done; mkdir -p /data; "
            "mount -t ext4 /dev/vdb /data"
        )
        return vm

    def close(self) -> None:
        self._vm.kill()


def _made_of(name: str, number: int, size: int) -> str:
    return f"busybox yes {name}-{number} | head -c {size}"


def _synced(name: str) -> str:
    """Appended, and synced; with its directory, as ext4 does."""
    return f"busybox dd of={name} oflag=append conv=notrunc,fsync bs=64k 2>/dev/null"


@contextmanager
def virtual(directory: Path) -> Iterator[Disk]:
    supervisor = Supervisor(SupervisorSettings(network=False, mounts=False, endpoints=()), {})
    try:
        disk = VmDisk(supervisor, template(supervisor), directory)
        try:
            yield disk
        finally:
            disk.close()
    finally:
        supervisor.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("disk", choices=("ext4", "fuse", "vm"))
    parser.add_argument("--crashes", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    expected, wrong, synced, unsynced = Expected(), [], 0, 0
    with tempfile.TemporaryDirectory(prefix="harrow-crashes-") as name, ExitStack() as undo:
        directory = Path(name)
        try:
            disk = undo.enter_context(
                virtual(directory) if arguments.disk == "vm" else forgetful(arguments.disk, directory)
            )
        except (EnvironmentFailed, NodeError, OSError) as error:  # OSError: a device that this user may not open
            print(f"{arguments.disk}: {error}", file=sys.stderr)
            return ExitStatus.FAILED
        began = time.monotonic()
        for what in rounds(arguments.crashes, arguments.seed):
            found = list(expected.differences(what, disk.crash_while_writing(what)))
            for line in found:
                print(line)
            wrong += found
            synced += what.synced + what.whole
            unsynced += what.unsynced + what.fresh + MOST_BYTES // 2
        took = time.monotonic() - began
    print(
        f"{arguments.disk}: {arguments.crashes} crashes in {took:.0f} s; {synced:,} bytes were synced before them and "
        f"{unsynced:,} were not; {len(wrong)} files were not as expected"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
