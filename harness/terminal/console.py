"""Consoles for output, and the progress of a run: coloured and live on a terminal, plain lines in a file or pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from harness.store.progress import ProgressFile

PLAIN_INTERVAL_S = 5.0

PLAIN_WIDTH = 120


def results_console() -> Console:
    """Standard output: the result of a command."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)


def progress_console() -> Console:
    """Standard error: progress messages."""
    return Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else PLAIN_WIDTH)


class RunProgress:
    """Messages and a status line on standard error. Safe to use from several threads."""

    def __init__(self, console: Console, file: ProgressFile | None = None) -> None:
        """`file` is told the same, for `harrow serve`."""
        self._console = console
        self._file = file
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        self._started_s = time.monotonic()
        self._shown_s = self._started_s
        self._phase = ""
        self._rate = _Rate()

    def __enter__(self) -> RunProgress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def phase(self, name: str, summary: str = "") -> None:
        """Announce the start of a phase."""
        self._phase = name
        if self._file is not None:
            self._file.tell(name, summary)
        self.log(f"{name}{': ' if summary else ''}{summary}", style="bold")

    def log(self, text: str, style: str = "") -> None:
        """Print a message with the time since the start."""
        self._console.print(Text(f"{self._time()}  {text}", style=style), soft_wrap=True)

    def status(
        self, acked: int, faults: Sequence[str], share: float | None = None, left_s: float | None = None
    ) -> None:
        """Update the status line; `acked` is the number of records acknowledged so far.

        `share` is the part of the phase that is over, `left_s` how long it still takes, where that is known.
        """
        acked_per_s = self._rate.of(acked)
        holding = f" · faults: {', '.join(faults)}" if faults else ""
        detail = f"{acked:,} records acked, {acked_per_s:,.0f}/s{holding}"
        if self._file is not None:
            self._file.tell(None, detail, share, left_s)
        line = f"{self._time()}  {self._phase} · {detail}"
        if self._live is not None:
            self._live.update(Text(line, style="cyan"), refresh=True)
        elif time.monotonic() - self._shown_s >= PLAIN_INTERVAL_S:
            self._shown_s = time.monotonic()
            self._console.print(Text(line), soft_wrap=True)

    def _time(self) -> str:
        seconds = int(time.monotonic() - self._started_s)
        return f"{seconds // 60:02d}:{seconds % 60:02d}"


class _Rate:
    """Growth rate of a count, over windows of two seconds."""

    _WINDOW_S = 2.0

    def __init__(self) -> None:
        self._since = (time.monotonic(), 0)
        self._per_s = 0.0

    def of(self, count: int) -> float:
        now_s = time.monotonic()
        then_s, before = self._since
        if now_s - then_s >= self._WINDOW_S:
            self._per_s = (count - before) / (now_s - then_s)
            self._since = (now_s, count)
        return self._per_s
