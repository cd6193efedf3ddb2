"""What a row of the matrix must show: a report or one clear line, never a traceback, and nothing left behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

COMMANDS = ("demo", "sim", "check", "doctor")
DECIDED = (0, 3)
"""Statuses of a run of the correct broker that has a report."""

FALSE_ALARM = 1
NOT_STARTED = 2
FIT, UNFIT = 0, 4
"""Statuses of `harrow doctor`."""


@dataclass(frozen=True)
class Command:
    """The result of one of the new user's commands."""

    status: int
    seconds: float
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Session:
    """The results of a new user's session on one machine."""

    commands: Mapping[str, Command]
    has_report: bool
    left_behind: tuple[str, ...]

    @classmethod
    def read(cls, directory: Path) -> Session:
        """Read what `session.sh` and `new_user.sh` wrote; a command that was never reached is missing."""
        commands = {}
        for name in COMMANDS:
            if (directory / f"{name}.milliseconds").exists():
                commands[name] = Command(
                    status=int((directory / f"{name}.status").read_text()),
                    seconds=int((directory / f"{name}.milliseconds").read_text()) / 1000,
                    stdout=(directory / f"{name}.stdout").read_text(errors="replace"),
                    stderr=(directory / f"{name}.stderr").read_text(errors="replace"),
                )
        left = directory / "left-behind"
        lines = left.read_text().splitlines() if left.exists() else ["the search for what was left behind did not run"]
        return cls(commands, (directory / "report.html").exists(), tuple(lines))


def problems(session: Session) -> Iterator[str]:
    """The session's problems, one line each."""
    for name in COMMANDS:
        if name not in session.commands:
            yield f"{name} did not end"
            continue
        command = session.commands[name]
        if "Traceback (most recent call last)" in command.stdout + command.stderr:
            yield f"{name} printed a traceback"
        if name in ("demo", "check"):
            yield from _of_a_run(name, command, session.has_report)
    if (sim := session.commands.get("sim")) is not None and sim.status != 0:
        yield f"sim ended with status {sim.status}"
    if (doctor := session.commands.get("doctor")) is not None:
        demo = session.commands.get("demo")
        worked = demo is not None and status_of_run(demo) in (*DECIDED, FALSE_ALARM)
        if doctor.status != (FIT if worked else UNFIT):
            yield f"doctor ended with status {doctor.status}, and the demo {'worked' if worked else 'did not work'}"
    for line in session.left_behind:
        yield f"left behind: {line}"


def status_of_run(command: Command) -> int:
    """The status of the harrow command: make has one of its own, and prints that of what it ran."""
    for line in reversed(command.stderr.splitlines()):
        if line.startswith("make: *** ") and "] Error " in line:
            return int(line.rpartition(" ")[2])
    return command.status


def _of_a_run(name: str, command: Command, has_report: bool) -> Iterator[str]:
    status = status_of_run(command)
    if status == NOT_STARTED:
        said = [line for line in command.stderr.splitlines() if line.startswith("harrow: ")]
        if len(said) != 1:
            yield f"{name} was refused with {len(said)} lines, one is wanted"
    elif status not in DECIDED:
        yield f"{name} ended with status {status}"
    elif not has_report:
        yield f"{name} ended with status {status} and without a report"
