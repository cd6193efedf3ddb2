"""Measures a check: generates a run of N events, starts Spark, and checks the run.

    python -m benchmarks.checkers.check --events 400000
    python -m benchmarks.checkers.check --events 10000000

An operation is two events, as Jepsen counts them: it begins, and it ends. Prints the time of each step, events a
second, and the most memory that the Java process held, next to measurements of Jepsen's checker. The run is that of
`benchmarks.checkers.long_history`.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.checkers.long_history import Traits, make_history, replace_a_record
from checkers.check import check
from checkers.input.sizes import Size, rows_of, size_of
from checkers.input.tables import survey
from checkers.spark import start_session

JEPSEN = (
    "Jepsen's Kafka checker on two such cores: 6,000 to 15,000 events/s, falling with size; 4.3 GB at 400,000 events"
)


def processor_seconds(session: SparkSession) -> float:
    """Processor time of Java and of its Python workers, which does not depend on other load of the machine."""
    return sum(map(processor_seconds_of, with_children(session.sparkContext._gateway.proc.pid)))


def with_children(process: int) -> Iterator[int]:
    """Yield a process and all below it."""
    yield process
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from with_children(int(child))


def processor_seconds_of(process: int, *, ended_children: bool = True) -> float:
    """Return the processor time of a process, with its children that have ended."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11 : 15 if ended_children else 13])) / os.sysconf("SC_CLK_TCK")


def peak_memory_gb(session: SparkSession) -> float:
    """The peak memory of the Java process of a session, in GB."""
    java = session.sparkContext._gateway.proc.pid
    lines = Path(f"/proc/{java}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=400_000)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--skew", type=float, default=0.0, help="share of the sends that go to one of four partitions")
    parser.add_argument("--unknown", type=float, default=0.0, help="share of the sends whose answer was lost")
    parser.add_argument("--breach", action="store_true", help="replace an acknowledged record by another")
    parser.add_argument("--repeat", type=int, default=1, help="checks in the same session")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch) / "run"
        began = time.monotonic()
        make_history(run, arguments.events // 2, Traits(arguments.skew, arguments.unknown))
        if arguments.breach:
            replace_a_record(run)
        most_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(
            f"history of {rows_of([survey(run)]):,} rows generated: {time.monotonic() - began:.1f} s, {most_gb:.1f} GB",
            flush=True,
        )
        began = time.monotonic()
        session = start_session(arguments.master, large=size_of([survey(run)]) is Size.LONG)
        print(f"session: {time.monotonic() - began:.1f} s, load {os.getloadavg()[0]:.1f}", flush=True)
        for _ in range(arguments.repeat):
            before, used = time.monotonic(), processor_seconds(session)
            (result,) = check([run], session)
            took = time.monotonic() - before
            operations = result.counts["operations"]
            print(
                f"check of {operations:,} operations and {result.counts['records_read']:,} records read: {took:.1f} s, "
                f"{2 * operations / took:,.0f} events/s, "
                f"{processor_seconds(session) - used:.1f} s of processor time, {peak_memory_gb(session):.1f} GB, "
                f"{result.verdict}, load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
            for reason in result.reasons:
                print(f"  {reason}")
        print(f"all in all: {time.monotonic() - began:.1f} s on {arguments.master}")
        print(JEPSEN)


if __name__ == "__main__":
    main()
