"""Runs the README's demo as a new user on each reduced machine, and writes the table of the results.

    python -m tests.machines [--table FILE] [--until SECONDS] [ROW …]

With `--until` no row begins after that time, in seconds since 1970: the first row always runs, the others take turns by
the day, and those that are left out are named. Needs root, mmdebstrap and, for the rows in containers, a Docker engine
that answers (`.ci/dockerd` starts one). The new user clones the last commit.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from tests.machines.judging import Session, problems, status_of_run
from tests.machines.machine import HERE, in_machine
from tests.machines.rows import ROWS, Row, named
from tests.machines.wheels import wheels_of

CHECKOUT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Result:
    """A row of the table."""

    row: Row
    session: Session
    verdict: str
    mechanisms: str
    problems: tuple[str, ...]


def run_session(row: Row, duration_s: int, kept: Path) -> Result:
    """Run the new user's session on a row's machine; its output stays in a directory of `kept`."""
    out = kept / row.name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="harrow-machine-") as directory:
        given = Path(directory)
        given.chmod(0o755)
        for script in ("session.sh", "new_user.sh", "without_ipv6.py"):
            shutil.copy(HERE / script, given)
        bundle = ["git", "-C", str(CHECKOUT), "bundle", "create", "--quiet", str(given / "harrow.bundle"), "HEAD"]
        subprocess.run(bundle, check=True, capture_output=True)
        shared = {given: "/machines", out: "/out", wheels_of(row, CHECKOUT): "/wheels"}
        settings = {
            "PIP_FIND_LINKS": "/wheels",
            "LANG": row.language,
            "LOAD": str(row.load),
            "HOME_IS": row.home,
            "ACCOUNT": row.account,
            "DIRECTORY": row.directory,
            "UMASK": row.umask,
            "DURATION": str(duration_s),
            "PYTHON": row.python,
            **({} if row.archives else {"CI": "true"}),
            **({"COLUMNS": str(row.columns)} if row.columns else {}),
        }
        done = in_machine(row, shared, ["sh", "/machines/session.sh"], settings)
    (out / "machine.log").write_text(done.stdout + done.stderr)
    session = Session.read(out)
    found = list(problems(session))
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        found.append(f"the machine ended with status {done.returncode}: {last}")
    return Result(row, session, _verdict(out), _mechanisms(out), tuple(found))


def _verdict(out: Path) -> str:
    results = out / "results.json"
    return str(json.loads(results.read_text())["verdict"]) if results.exists() else "none"


def _mechanisms(out: Path) -> str:
    spec = out / "spec.json"
    found = json.loads(spec.read_text()).get("mechanisms", {}) if spec.exists() else {}
    first_clauses = (re.split(r",| of ", found.get(name, ""))[0] for name in ("network", "page-cache-loss"))
    return "; ".join(first_clauses)


def table(rows: Sequence[Result]) -> str:
    """The table as Markdown."""
    lines = [
        "| machine | what it is | verdict | status | demo | sim | check | network; page-cache loss |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for result in rows:
        seconds = {name: f"{command.seconds:.0f} s" for name, command in result.session.commands.items()}
        demo = result.session.commands.get("demo")
        status = "-" if demo is None else str(status_of_run(demo))
        times = " | ".join(seconds.get(name, "-") for name in ("demo", "sim", "check"))
        what = f"`{result.row.name}` | {result.row.description}"
        lines.append(f"| {what} | {result.verdict} | {status} | {times} | {result.mechanisms} |")
    return "\n".join(lines)


def in_turn(rows: Sequence[Row], turn: int) -> list[Row]:
    """The first row, and then the others, of which another one comes first each turn."""
    others = rows[1:]
    first = turn % max(1, len(others))
    return [*rows[:1], *others[first:], *others[:first]]


def main() -> None:
    """Run the rows that are named, or all; exit status 1 if one of them has a problem."""
    parser = argparse.ArgumentParser(prog="python -m tests.machines", description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"default: all of {', '.join(row.name for row in ROWS)}")
    parser.add_argument("--duration", type=int, default=15, help="main phase of the demo in seconds (15)")
    parser.add_argument("--jobs", type=int, default=2, help="machines at a time (2)")
    parser.add_argument("--until", type=float, metavar="SECONDS", help="begin no further row after this time")
    parser.add_argument("--kept", type=Path, default=Path("store/machines"), help="where output stays, by row")
    parser.add_argument("--table", type=Path, help="write the table here as well")
    given = parser.parse_args()
    unknown = sorted(set(given.rows) - {row.name for row in ROWS})
    if unknown:
        parser.error(f"expected rows of the matrix, found {', '.join(unknown)}")
    if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
        parser.error("expected root and the program mmdebstrap (apt-get install mmdebstrap)")
    rows = [named(name) for name in given.rows] or list(ROWS)
    if given.until is not None:
        rows = in_turn(rows, date.today().toordinal())
    kept = given.kept.absolute()

    def session_of(row: Row) -> Result | None:
        is_late = given.until is not None and time.time() > given.until and row is not rows[0]
        return None if is_late else run_session(row, given.duration, kept)

    results: list[Result] = []
    for jobs, group in ((given.jobs, [row for row in rows if not row.alone]), (1, [row for row in rows if row.alone])):
        with ThreadPoolExecutor(jobs) as pool:
            for result in filter(None, pool.map(session_of, group)):
                results.append(result)
                print(
                    f"{result.row.name}: {result.verdict}{''.join(f'; {one}' for one in result.problems)}", flush=True
                )
    print(table(results))
    left_out = [row.name for row in rows if row not in [result.row for result in results]]
    if left_out:
        print(f"left out for want of time: {', '.join(left_out)}")
    if given.table is not None:
        given.table.write_text(table(results) + "\n")
    failing = [result.row.name for result in results if result.problems]
    if failing:
        print(f"problems on: {', '.join(failing)}; see {kept}", file=sys.stderr)
    sys.exit(1 if failing else 0)


if __name__ == "__main__":
    main()
