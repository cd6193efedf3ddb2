"""Times every page of `harrow serve` on a store of a thousand runs.

python -m benchmarks.harness.store_browser
python -m benchmarks.harness.store_browser --runs 5000 --nights 60

The runs are copies of two simulated ones, one that failed and one that passed, under names of their own; the nights are
those of the suite `smoke`. Each page is asked for over one connection that stays open, as a browser does. The exit
status is 1 if the median of a page is above the limit.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

from harness.shipped import SUITES
from harness.store.browser.server import StoreServer
from harness.store.progress import ProgressFile
from harness.suites.definition import load
from harness.suites.suite_state import CellResult, resume_or_start
from reports import render
from simulation.runs import stored
from simulation.scenario.case import Case

LIMIT_MS = 300.0
FAILING = Case(1, {"flaws": ("ack-before-replication",)})
PASSING = Case(1, {})
FIRST = datetime(2026, 1, 1, 2, tzinfo=UTC)


class Timed(NamedTuple):
    """One page, and how long each of its answers took."""

    what: str
    path: str
    size_bytes: int
    answers_ms: Sequence[float]
    processor_ms: float
    """Of server and client together, each answer; what else the machine does adds nothing."""

    @property
    def median_ms(self) -> float:
        return statistics.median(self.answers_ms)


def make_store(store: Path, runs: int, nights: int) -> None:
    """Every tenth run is a copy of the failing one."""
    originals = {}
    for name, case in (("failing", FAILING), ("passing", PASSING)):
        originals[name] = store / "originals" / name
        originals[name].mkdir(parents=True)
        found = stored.store(originals[name], case)
        assert bool(found) == (name == "failing"), f"expected a {name} simulation, found {found}"
        render(originals[name])
    for number in range(runs):
        time_of = (FIRST + timedelta(minutes=number)).strftime("%Y%m%dT%H%M%SZ")
        copy_of(
            originals["passing" if number % 10 else "failing"], store / "runs", f"{time_of}-sim-seed-{number}", number
        )
    shutil.rmtree(store / "originals")
    suite = load(SUITES.find("smoke"))
    for night in range(nights):
        state = resume_or_start(store, suite, fresh=True, now=FIRST + timedelta(days=night))
        for number, cell in enumerate((*suite.canary[:1], *suite.cells)):
            verdict = "invalid" if cell.anomaly or number == night % 7 + 1 else "valid"
            found = True if cell.anomaly else None
            result = CellResult(verdict, ("a reason",), 10.0, None, None, {"seeds": 5}, {}, "harrow sim", found)
            state.store_result(cell, result)
        state.add_time(60.0, "finished")


def copy_of(original: Path, to: Path, name: str, seed: int) -> None:
    shutil.copytree(original, to / name)
    for file, key, value in (("spec.json", "seed", seed), ("results.json", "run_id", name)):
        content = json.loads((to / name / file).read_text())
        (to / name / file).write_text(json.dumps({**content, key: value}))


def ask(connection: HTTPConnection, path: str) -> tuple[float, int]:
    """Milliseconds, and the size of the answer."""
    began_s = time.perf_counter()
    connection.request("GET", path)
    answer = connection.getresponse()
    content = answer.read()
    took_ms = (time.perf_counter() - began_s) * 1000
    assert answer.status == 200, (path, answer.status, content[:500])
    return took_ms, len(content)


def measure(store: Path, repeats: int) -> Sequence[Timed]:
    names = sorted(path.name for path in (store / "runs").iterdir())
    failing, passing = names[0], names[1]
    began_s = time.perf_counter()
    server = StoreServer(store, 0)
    print(f"the index was read in {time.perf_counter() - began_s:.2f} s")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    compared = f"/compare?one={passing}&other={failing}"
    used_s = time.process_time()
    first_ms, size = ask(connection, compared)
    used_s = time.process_time() - used_s
    pages = [
        ("runs", "/"),
        ("runs, the last page", "/?page=10000"),
        ("runs, searched", "/?q=seed-9+sim"),
        ("runs, those that failed", "/?verdict=invalid"),
        ("a run that passed", f"/runs/{passing}"),
        ("a run that failed", f"/runs/{failing}"),
        ("its report", f"/store/runs/{failing}/report.html"),
        ("two runs, later", compared),
        ("suites", "/suites"),
        ("trends", "/trends"),
        ("now", "/now"),
    ]
    timed = [Timed("two runs, first", compared, size, [first_ms], used_s * 1000)]
    with ProgressFile(store, "run", failing, store / "runs" / failing):
        for what, path in pages:
            ask(connection, path)  # its template is compiled once
            used_s = time.process_time()
            answers = [ask(connection, path) for _ in range(repeats)]
            used_ms = (time.process_time() - used_s) * 1000 / repeats
            timed.append(Timed(what, path, answers[-1][1], [took_ms for took_ms, _ in answers], used_ms))
    connection.close()
    server.shutdown()
    server.server_close()
    return timed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        store = Path(directory) / "store"
        make_store(store, options.runs, options.nights)
        print(f"{options.runs:,} runs, {options.nights} nights, {options.repeats} answers a page")
        timed = measure(store, options.repeats)
    print(f"{'page':24} {'kB':>6} {'fastest ms':>10} {'median ms':>10} {'slowest ms':>10} {'CPU ms':>8}")
    for page in timed:
        fastest, slowest = min(page.answers_ms), max(page.answers_ms)
        wall = f"{fastest:10.1f} {page.median_ms:10.1f} {slowest:10.1f}"
        print(f"{page.what:24} {page.size_bytes / 1000:6.0f} {wall} {page.processor_ms:8.1f}")
    slow = [page.what for page in timed if page.median_ms > LIMIT_MS]
    print(f"above {LIMIT_MS:.0f} ms: {', '.join(slow) or 'none'}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
