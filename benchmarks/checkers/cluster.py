"""Measures a check on a Spark cluster whose machines are processes of this one, of which one is lost in the middle.

    python -m benchmarks.checkers.cluster --events 100000000 --scratch DIRECTORY
    python -m benchmarks.checkers.cluster --events 1000000 --lose none

Starts a standalone master and workers with one core each. All read one history from a shared folder, which is generated
(`benchmarks.checkers.long_history`) unless an earlier call has left it there. As soon as half of the tasks that read
the history have ended, a worker and its executor are killed: what they have put by for the tasks that screen is
lost too. Prints the time of the check, processor time of all processes, the most memory of each kind, the
tasks that failed, and the verdict and counts; a verdict that is not `valid` ends the command with status 1.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

from pyspark import SparkContext, SparkStageInfo

from benchmarks.checkers.check import processor_seconds_of, with_children
from benchmarks.checkers.long_history import make_history
from checkers.check import check
from checkers.input.sizes import rows_of
from checkers.input.tables import survey
from checkers.spark import end_java, start_session
from tests.support.spark_cluster import Cluster, Daemon, cluster

LOOK_S = 0.2
TUNING = "-XX:+UseSerialGC"
"""As many virtual machines as this shares the cores; parallel collectors would compete for them."""


class Watch(threading.Thread):
    """Looks at a check while it runs: kills a worker in the middle, and adds up what processes used."""

    def __init__(self, context: SparkContext, made: Cluster, lose: int | None) -> None:
        super().__init__(daemon=True)
        self._context, self._made, self._lose = context, made, lose
        self._over = threading.Event()
        self._used: dict[int, float] = {}
        self._began = time.monotonic()
        self.lost = ""
        self.memory_gb: dict[str, float] = {}

    @property
    def processor_s(self) -> float:
        """Processor time of all processes that were seen."""
        return sum(self._used.values())

    def run(self) -> None:
        """Look until `end` is called."""
        while not self._over.wait(LOOK_S):
            self._measure()
            if self._lose is not None and not self.lost and self._half_read():
                self._kill(self._made.workers[self._lose])

    def end(self) -> None:
        """Stop looking."""
        self._over.set()
        self.join()
        self._measure()

    def _stages(self) -> list[SparkStageInfo]:
        status = self._context.statusTracker()
        return [each for each in map(status.getStageInfo, status.getActiveStageIds()) if each is not None]

    def _half_read(self) -> bool:
        return any(each.numTasks > 1 and each.numCompletedTasks >= each.numTasks // 2 for each in self._stages())

    def _kill(self, worker: Daemon) -> None:
        done = ", ".join(f"{each.numCompletedTasks} of {each.numTasks} tasks" for each in self._stages())
        self.lost = f"{time.monotonic() - self._began:.1f} s after the beginning, with {done} done"
        for process in reversed(list(with_children(worker.process.pid))):
            with suppress(ProcessLookupError):  # it ended with its parent
                os.kill(process, signal.SIGKILL)

    def _measure(self) -> None:
        memory: dict[str, float] = {}
        for process in with_children(os.getpid()):
            try:
                used = processor_seconds_of(process, ended_children=False)
                status = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
                kind = status["Name"].strip()
                self._used[process] = used
                memory[kind] = memory.get(kind, 0.0) + int(status.get("VmRSS", "0 kB").split()[0]) / 1e6
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended
        for kind, gb in {**memory, "all": sum(memory.values())}.items():
            self.memory_gb[kind] = max(self.memory_gb.get(kind, 0.0), gb)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000, help="two for each operation")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--memory", default="2g", help="of a worker's executor")
    parser.add_argument("--lose", choices=("one", "none"), default="one", help="workers to kill in the middle")
    parser.add_argument("--scratch", type=Path, help="where the history is, and stays (by default a temporary one)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        run = (chosen.scratch or Path(temporary)) / f"events-{chosen.events}"
        if not (run / "history" / "workers").is_dir():  # the table that is written last
            began = time.monotonic()
            make_history(run, chosen.events // 2)
            print(f"history generated in {time.monotonic() - began:.0f} s", flush=True)
        print(f"{rows_of([survey(run)]):,} rows, {_size_gb(run):.1f} GB in Parquet", flush=True)
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--conf spark.executor.memory={chosen.memory} pyspark-shell"
        daemons = Path(temporary) / "daemons"
        daemons.mkdir()
        with cluster(daemons, chosen.workers, memory="8g", tuning=TUNING) as made:
            return _measured(run, made, lose=0 if chosen.lose == "one" else None)


def _measured(run: Path, made: Cluster, lose: int | None) -> int:
    session = start_session(made.master, large=True)
    try:
        watch = Watch(session.sparkContext, made, lose)
        began = time.monotonic()
        watch.start()
        (result,) = check([run], session)
        took = time.monotonic() - began
        watch.end()
    finally:
        end_java()
    events = 2 * result.counts["operations"]
    failed = sum(worker.log.read_text().count("state KILLED") for worker in made.workers)
    lost = made.manager.log.read_text().count("Removing worker")
    print(f"a worker was lost {watch.lost}" if watch.lost else "no worker was lost")
    print(f"the master removed {lost} workers; {failed} executors were killed by their workers")
    memory = ", ".join(f"{gb:.1f} GB {kind}" for kind, gb in sorted(watch.memory_gb.items()))
    print(
        f"check of {events:,} events by {len(made.workers)} workers: {took:.1f} s, {events / took:,.0f} events/s, "
        f"{watch.processor_s:.1f} s of processor time, at most {memory}; load {os.getloadavg()[0]:.1f}"
    )
    print(f"{result.verdict}: {dict(sorted(result.counts.items()))} {list(result.reasons)}")
    return int(result.verdict != "valid" or (lose is not None) != bool(watch.lost and lost))


def _size_gb(run: Path) -> float:
    return sum(part.stat().st_size for part in run.rglob("*.parquet")) / 1e9


if __name__ == "__main__":
    sys.exit(main())
