"""Handles Ctrl-C and SIGTERM: the first heals, stops the nodes and keeps the history; the second ends at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from harness.terminal.exits import ExitStatus

POLL_S = 0.05


class Interrupted(Exception):
    """The user asked the run to end early."""


class RunFailed(Exception):
    """A condition that the run needs was not met. One line: expected, found."""


class MissingPrerequisite(RunFailed):
    """The command needs something that is missing. Nothing was started. One line: expected, found, what to do."""


class Stop:
    """A request to end the run, which interrupts waits."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def request(self) -> None:
        """Ask the run to end."""
        self._event.set()

    @property
    def requested(self) -> bool:
        """Whether the run was asked to end."""
        return self._event.is_set()

    def sleep(self, seconds: float) -> None:
        """Sleep. Raises `Interrupted` as soon as the run is asked to end."""
        if self._event.wait(seconds):
            raise Interrupted

    def until(self, condition: Callable[[], bool], timeout_s: float, now_ns: Callable[[], int]) -> bool:
        """Poll a condition until it holds or the deadline has passed. Raises `Interrupted`."""
        deadline_ns = now_ns() + int(timeout_s * 1e9)
        while not condition():
            if now_ns() >= deadline_ns:
                return condition()
            self.sleep(POLL_S)
        return True


@contextmanager
def on_signals(stop: Stop, heal: str = "harrow heal") -> Iterator[None]:
    """Translate SIGINT and SIGTERM to `stop` inside the block; `heal` is the command to suggest after a second one."""

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if stop.requested:
            os.write(sys.stderr.fileno(), f"harrow: ended at once; `{heal}` cleans up after the run\n".encode())
            os._exit(ExitStatus.UNKNOWN)
        stop.request()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Let SIGTERM raise `KeyboardInterrupt` inside the block, as Ctrl-C does, so that child processes are ended."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
