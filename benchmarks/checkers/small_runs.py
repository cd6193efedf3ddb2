"""Measures checks of runs of a minute: one in a fresh process, and many in one call; as files, and as frames.

    python -m benchmarks.checkers.small_runs --runs 50
    python -m benchmarks.checkers.small_runs --runs 3 --of store/runs/one store/runs/other

Prints a table of processor seconds (user and system time of the process, of Java and of Spark's Python workers, which
do not depend on what else the machine does), of the memory of the largest process, and of wall time. *As frames* is the
way in which every run was checked before ordinary ones were recognised (`checkers.screening.ordinary`). Compares
verdicts, counts and anomalies of both ways, and ends with status 1 if any differ. Without `--of` the runs are generated
(`benchmarks.checkers.long_history`).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import pyarrow.parquet as pq

from benchmarks.checkers.check import processor_seconds_of, with_children
from benchmarks.checkers.long_history import make_history
from checkers import check as checking

OPERATIONS = 10_700
"""Of a run of a minute: some 82,000 rows."""
COMPARED = ("verdict", "reasons", "anomalies", "counts")
WAYS = ("files", "frames")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50, help="runs of the call that checks many")
    parser.add_argument("--of", nargs="+", type=Path, default=[], help="stored runs to copy instead of generating one")
    parser.add_argument("--repeat", type=int, default=3, help="fresh processes for one run")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--check", nargs="+", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.check:
        return _check(chosen.check, chosen.way)
    with tempfile.TemporaryDirectory() as scratch:
        originals = chosen.of or [Path(scratch) / "generated"]
        if not chosen.of:
            make_history(originals[0], OPERATIONS)
        runs = [Path(scratch) / f"{number:03}" for number in range(chosen.runs)]
        for number, run in enumerate(runs):
            shutil.copytree(originals[number % len(originals)] / "history", run / "history")
            _name(run, run.name)
        print("| runs in one call | checked as | processor s | s a run | wall s | largest process | load |")
        print("|---|---|---|---|---|---|---|")
        found = {}
        for way in WAYS:
            for some in [*([runs[:1]] * chosen.repeat), runs]:
                _measured(some, way)
            found[way] = [_results(run) for run in runs]
    same = found["files"] == found["frames"]
    print(f"verdicts, counts and anomalies of {chosen.runs} runs are {'the same' if same else 'DIFFERENT'}")
    return int(not same)


def _name(run: Path, run_id: str) -> None:
    """Give all rows of a run an id of their own, so that a batch holds many of them."""
    for part in (run / "history").glob("*/part-*.parquet"):
        table = pq.read_table(part)
        index = table.schema.get_field_index("run_id")
        renamed = [run_id if value is not None else None for value in table.column("run_id").to_pylist()]
        pq.write_table(table.set_column(index, table.schema.field(index), [renamed]), part)


def _measured(runs: Sequence[Path], way: str) -> None:
    began = time.monotonic()
    command = [sys.executable, "-m", "benchmarks.checkers.small_runs", "--way", way, "--check", *map(str, runs)]
    used = float(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    took, most = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(
        f"| {len(runs)} | {way} | {used:.1f} | {used / len(runs):.2f} | {took:.1f} | "
        f"up to {most / 1e6:.1f} GB | {os.getloadavg()[0]:.1f} |",
        flush=True,
    )


def _check(runs: Sequence[Path], way: str) -> int:
    if way == "files":
        checking.check(runs)
    else:
        with mock.patch.object(checking, "recognised_runs", return_value={}):
            checking.check(runs)
    # Python workers outlive Java, which does not wait for them: their time is known only while they are there.
    print(sum(map(processor_seconds_of, with_children(os.getpid()))))
    return 0


def _results(run: Path) -> list[object]:
    results = json.loads((run / "results.json").read_text())
    tables = [pq.read_table(run / table / "part-000000.parquet").to_pylist() for table in ("anomalies", "repairs")]
    return [*(results[name] for name in COMPARED), *tables]


if __name__ == "__main__":
    sys.exit(main())
