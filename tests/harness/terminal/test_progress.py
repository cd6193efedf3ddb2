from __future__ import annotations

import io

import pytest
from rich.console import Console

from harness.terminal import console as module
from harness.terminal.console import RunProgress


class Time:
    def __init__(self) -> None:
        self.s = 1000.0

    def monotonic(self) -> float:
        return self.s


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(module, "time", time)
    return time


def lines(output: io.StringIO) -> list[str]:
    return output.getvalue().splitlines()


def test_where_there_is_no_terminal_a_plain_line_comes_every_few_seconds(time: Time) -> None:
    output = io.StringIO()
    with RunProgress(Console(file=output, width=200)) as progress:
        progress.phase("main", "60 s")
        for tick in range(101):
            time.s = 1000.0 + tick / 10
            progress.status(tick * 100, ("kill 2",))
    assert lines(output) == [
        "00:00  main: 60 s",
        "00:05  main · 5,000 records acked, 1,000/s · faults: kill 2",
        "00:10  main · 10,000 records acked, 1,000/s · faults: kill 2",
    ]
    assert "\x1b" not in output.getvalue()


def test_on_a_terminal_one_line_lives(time: Time) -> None:
    output = io.StringIO()
    with RunProgress(Console(file=output, width=200, force_terminal=True)) as progress:
        progress.phase("main")
        time.s += 65
        progress.status(7, ())
    assert "01:05  main · 7 records acked" in output.getvalue()
    assert "\x1b[2K" in output.getvalue(), "the line is wiped when it is over"


def test_a_message_with_brackets_is_printed_unchanged(time: Time) -> None:
    output = io.StringIO()
    with RunProgress(Console(file=output, width=200)) as progress:
        progress.log("ISR [1, 2] and [bold]")
    assert lines(output) == ["00:00  ISR [1, 2] and [bold]"]


def test_a_long_note_is_one_line_where_there_is_no_terminal(time: Time) -> None:
    output = io.StringIO()
    with RunProgress(Console(file=output, width=40)) as progress:
        progress.log("word " * 50)
    assert len(lines(output)) == 1
