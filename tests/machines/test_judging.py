"""The matrix of machines reports every problem of a session, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.machines.__main__ import in_turn
from tests.machines.judging import COMMANDS, Command, Session, problems
from tests.machines.rows import ROWS

FINE = Command(0, 1.0, "VALID  No violations in 100 acknowledged writes", "")
SESSION = Session(dict.fromkeys(COMMANDS, FINE), has_report=True, left_behind=())


def session(**commands: Command) -> Session:
    return replace(SESSION, commands={**SESSION.commands, **commands})


def failed(status: int, stderr: str = "") -> Command:
    """As make shows it: its own status is 2 whatever the command's was."""
    return Command(2, 1.0, "", f"{stderr}\nmake: *** [Makefile:22: demo] Error {status}\n")


@pytest.mark.parametrize(
    ("session", "complaints"),
    [
        (SESSION, []),
        (session(demo=failed(3)), []),
        (session(demo=failed(1)), ["demo ended with status 1"]),
        (
            session(demo=failed(4)),
            ["demo ended with status 4", "doctor ended with status 0, and the demo did not work"],
        ),
        (session(check=replace(FINE, status=4)), ["check ended with status 4"]),
        (session(sim=replace(FINE, status=1)), ["sim ended with status 1"]),
        (
            session(demo=failed(2, "harrow: expected a Java, found none"), doctor=replace(FINE, status=4)),
            [],
        ),
        (
            session(demo=failed(2, "make: *** No rule"), doctor=replace(FINE, status=4)),
            ["demo was refused with 0 lines, one is wanted"],
        ),
        (session(doctor=replace(FINE, status=4)), ["doctor ended with status 4, and the demo worked"]),
        (
            session(sim=replace(FINE, stderr="Traceback (most recent call last):\n…")),
            ["sim printed a traceback"],
        ),
        (
            replace(SESSION, has_report=False),
            ["demo ended with status 0 and without a report", "check ended with status 0 and without a report"],
        ),
        (replace(SESSION, left_behind=("process 7: java",)), ["left behind: process 7: java"]),
        (replace(SESSION, commands={"demo": FINE, "sim": FINE, "doctor": FINE}), ["check did not end"]),
    ],
)
def test_problems_of_a_session(session: Session, complaints: list[str]) -> None:
    assert list(problems(session)) == complaints


def test_a_machine_without_results_is_a_problem(tmp_path: Path) -> None:
    found = list(problems(Session.read(tmp_path)))
    assert [f"{name} did not end" for name in COMMANDS] == found[:-1]
    assert found[-1] == "left behind: the search for what was left behind did not run"


def test_what_was_written_is_read(tmp_path: Path) -> None:
    for name, text in {"status": "3", "milliseconds": "1500", "stdout": "out", "stderr": "err"}.items():
        (tmp_path / f"demo.{name}").write_text(text)
    (tmp_path / "left-behind").write_text("")
    (tmp_path / "report.html").write_text("")
    assert Session.read(tmp_path) == Session({"demo": Command(3, 1.5, "out", "err")}, True, ())


def test_all_rows_but_the_first_take_turns() -> None:
    others = [row.name for row in ROWS[1:]]
    turns = [[row.name for row in in_turn(ROWS, turn)] for turn in range(len(ROWS))]
    assert all(turn[0] == ROWS[0].name and sorted(turn[1:]) == sorted(others) for turn in turns)
    assert {turn[1] for turn in turns} == set(others)
    assert [row.name for row in in_turn(ROWS[:1], 7)] == [ROWS[0].name]
