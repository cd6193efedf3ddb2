"""Ctrl-C and SIGTERM: the first asks the run to heal, stop its nodes and keep its history; the second is immediate."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from harness.terminal.exits import Exit

POLL_S = 0.05


class Interrupted(Exception):
    """Somebody asked the run to end early."""


class Failed(Exception):
    """A condition that the run needs did not come true. One line: expected, found."""


class Lacking(Failed):
    """What was asked for is not here. Nothing was started. One line: expected, found, what to do."""


class Stop:
    """Whether the run was asked to end; waits notice."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def request(self) -> None:
        """Ask the run to end."""
        self._event.set()

    @property
    def requested(self) -> bool:
        """Whether it was asked to."""
        return self._event.is_set()

    def rest(self, seconds: float) -> None:
        """Let time pass. Raises `Interrupted` as soon as the run is asked to end."""
        if self._event.wait(seconds):
            raise Interrupted

    def until(self, condition: Callable[[], bool], timeout_s: float, now_ns: Callable[[], int]) -> bool:
        """Poll a condition until it holds or the deadline has passed. Raises `Interrupted`."""
        deadline_ns = now_ns() + int(timeout_s * 1e9)
        while not condition():
            if now_ns() >= deadline_ns:
                return condition()
            self.rest(POLL_S)
        return True


@contextmanager
def on_signals(stop: Stop, heal: str = "harrow heal") -> Iterator[None]:
    """Translate SIGINT and SIGTERM to `stop` while inside; `heal` is the command that undoes what a second leaves."""

    def heard(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if stop.requested:
            os.write(sys.stderr.fileno(), f"harrow: ended at once; `{heal}` removes what the run left\n".encode())
            os._exit(Exit.UNKNOWN)
        stop.request()

    before = {number: signal.signal(number, heard) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Let SIGTERM raise `KeyboardInterrupt` while inside, as Ctrl-C does; so that what was started is ended."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
