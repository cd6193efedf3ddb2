"""Starts our Python programs: by a new interpreter, or by forking a process that has already imported them.

`module_command` is the command for a new interpreter. An emulated processor needs ten seconds to import the broker, but
ten milliseconds to fork a process that has done so. A process that has imported programs (`make_ready`) starts them by
forking, and so do its forks. In any other process, and for any other command, `start` uses `subprocess.Popen`.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import importlib.util
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn, Protocol

SAFE_PATH: Final = "-P"
"""Import nothing from the current directory: a user's directory may have a package `broker`, too."""


def module_command(module: str, *arguments: str) -> tuple[str, ...]:
    """`python -m module`, with the interpreter that runs us."""
    return (sys.executable, SAFE_PATH, "-m", module, *arguments)


def module_of(command: Sequence[str]) -> tuple[str, Sequence[str]] | None:
    """The module that a Python command runs, and its arguments; None if it runs no module."""
    words = [word for index, word in enumerate(command) if index > 1 or word != SAFE_PATH]
    return (words[2], words[3:]) if len(words) > 2 and words[1] == "-m" else None


_FIRST_OTHER = 3
"""The first descriptor that is not a standard stream."""

_programs: dict[str, Callable[[], None]] = {}


class Child(Protocol):
    """A process that we started, with the interface of `subprocess.Popen`."""

    @property
    def pid(self) -> int:
        """Its process id."""
        ...

    @property
    def returncode(self) -> int | None:
        """Exit status after `wait`, negative for the signal that killed it."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return its exit status; `subprocess.TimeoutExpired` after that many seconds."""
        ...

    def kill(self) -> None:
        """SIGKILL. Does nothing after `wait` has returned."""
        ...


class Forked:
    """A child that is a fork of this process (`Child`)."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return its exit status; `subprocess.TimeoutExpired` after that many seconds."""
        if self.returncode is None:
            if timeout is not None and not self._ends_within(timeout):
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode

    def kill(self) -> None:
        """SIGKILL. Does nothing after `wait` has returned."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _ends_within(self, timeout_s: float) -> bool:
        end = os.pidfd_open(self.pid)
        try:
            ended = select.poll()
            ended.register(end, select.POLLIN)
            return bool(ended.poll(timeout_s * 1000))
        finally:
            os.close(end)


def make_ready(modules: Sequence[str]) -> None:
    """Import programs, named as for `python -m`. Each has a `main` that reads its arguments from `sys.argv`."""
    for name in modules:
        spec = importlib.util.find_spec(name)
        is_package = spec is not None and spec.submodule_search_locations is not None
        _programs[name] = importlib.import_module(f"{name}.__main__" if is_package else name).main


def start(
    command: Sequence[str],
    environment: Mapping[str, str],
    streams: tuple[int | None, int | None, int | None],
    kept: Sequence[int] = (),
    prepare: Callable[[], None] | None = None,
) -> Child:
    """Start a program as the leader of a new session. Raises `OSError`, `subprocess.SubprocessError`.

    `streams` are descriptors (None: ours) for standard input, output and error; the program also inherits those in
    `kept`, under the same numbers, and no others. `prepare` is called in the new process before the program begins.
    """
    module = module_of(command)
    if module is not None and module[0] in _programs and _is_our_python(command[0]):
        return fork(*module, environment, streams, kept, prepare)
    stdin, stdout, stderr = streams
    return subprocess.Popen(
        command,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=environment,
        pass_fds=kept,
        start_new_session=True,  # a Ctrl-C at the terminal is the harness's to handle
        preexec_fn=prepare,  # noqa: PLW1509 - only single-threaded callers pass one
    )


def fork(
    program: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    streams: tuple[int | None, int | None, int | None],
    kept: Sequence[int] = (),
    prepare: Callable[[], None] | None = None,
) -> Forked:
    """Start a program that `make_ready` has imported."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _become(program, arguments, environment, streams, kept, prepare)
    return Forked(pid)


def _is_our_python(program: str) -> bool:
    found = shutil.which(program)
    return found is not None and os.path.realpath(found) == os.path.realpath(sys.executable)


def _become(
    program: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    streams: Sequence[int | None],
    kept: Sequence[int],
    prepare: Callable[[], None] | None,
) -> NoReturn:
    status = 1
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if prepare is not None:
            prepare()
        _keep_open(streams, kept)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = [program, *arguments]
        _programs[program]()
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # no caller above would handle it
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _keep_open(streams: Sequence[int | None], kept: Sequence[int]) -> None:
    """Set up the standard streams, and close every other descriptor that is not kept."""
    apart = [None if given is None else fcntl.fcntl(given, fcntl.F_DUPFD, _FIRST_OTHER) for given in streams]
    for number, given in enumerate(apart):
        if given is not None:
            os.dup2(given, number)
    first = _FIRST_OTHER
    for descriptor in sorted(set(kept)):
        os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))
