"""Measures the linearizability kernels: their time alone, without start-up and reading of files.

    python -m benchmarks.checkers.linearizability corpus DIRECTORY   every file of foreign histories
    python -m benchmarks.checkers.linearizability large              generated, of a correct object, one key each

`corpus` prints a line a file: operations, configurations visited, medians of processor and wall time, verdict; then the
sums of the medians. The kernels run on one thread: on an idle machine both times are the same.
Where the directory has a `linearizability.json` with the known verdicts, a wrong one ends the command with status 1.
`large` prints operations a second of processor time, for the special cases and for searches, and the memory that the
kernel took beyond the history. With `--clients 30 --unknown 0.05` thousands of operations have no known outcome.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from checkers.foreign.events import Event
from checkers.foreign.formats import recognise, rows_of
from checkers.foreign.operations import initial_values, model_of, operations_of
from checkers.linearizability.check import DEFAULT, check_history
from checkers.linearizability.operations import UNKNOWN, LinearizabilityVerdict, Operation

OPERATIONS = {
    "register": 1_000_000,
    "append-only-log": 1_000_000,
    "set": 1_000_000,
    "fifo-queue": 1_000_000,
    "kv": 1_000_000,
    "multi-register": 200_000,
    "mutex": 200_000,
    "cas-register": 200_000,
    "counter": 200_000,
}
CLIENTS = 8
NAMES = ("a", "b", "c", "d", "e")
"""Of registers of one key."""

Request = tuple[str, object, object, str]
"""Function, argument, result, status."""


def decided(
    operations: list[Operation], model: str, initial: object, rounds: int
) -> tuple[float, float, LinearizabilityVerdict]:
    """Return the medians of processor time and of wall time, and the verdict."""
    processor, wall = [], []
    for _ in range(rounds):
        began, spent = time.perf_counter(), time.process_time()
        verdict = check_history(operations, model, initial=initial)
        processor.append(time.process_time() - spent)
        wall.append(time.perf_counter() - began)
    return statistics.median(processor), statistics.median(wall), verdict


def corpus(directory: Path, rounds: int) -> int:
    known = {}
    if (directory / "linearizability.json").is_file():
        entries = json.loads((directory / "linearizability.json").read_text())
        known = {entry["file"]: entry["linearizable"] for entry in entries}
    sums: dict[str, list[float]] = {}
    wrong = 0
    print(f"{'file':<56} {'ops':>5} {'configurations':>14} {'CPU ms':>8} {'wall ms':>8}  verdict")
    for path in sorted(path for path in directory.rglob("*") if path.suffix in (".log", ".txt", ".edn")):
        form = recognise(path)
        events = [row for row in rows_of(path, form) if isinstance(row, Event)] if form else []
        operations, _ = operations_of(events, form or "")
        model = model_of(operations)
        if form is None or model is None:
            continue
        name = path.relative_to(directory)
        processor, wall, configurations, outcomes = 0.0, 0.0, 0, []
        for initial in initial_values(operations, model, form) or [DEFAULT]:
            spent, took, verdict = decided(operations, model, initial, rounds)
            processor, wall = processor + spent, wall + took
            configurations += verdict.counts["configurations"]
            outcomes.append(verdict.outcome)
        outcome = "valid" if "valid" in outcomes else outcomes[0]
        right = str(name) not in known or outcome == ("valid" if known[str(name)] else "invalid")
        wrong += not right
        group = sums.setdefault(f"{name.parent}/{name.name.split('_')[0] if '_' in name.name else '*'}", [0, 0.0, 0.0])
        for index, number in enumerate((1, processor, wall)):
            group[index] += number
        print(
            f"{name!s:<56} {len(operations):>5,} {configurations:>14,} {1000 * processor:>8.2f} {1000 * wall:>8.2f}"
            f"  {outcome}{'' if right else '  WRONG'}"
        )
    print("\nsums of medians")
    for name, (files, processor, wall) in sums.items():
        print(f"{name:<44} {files:>5} files {'':>19} {1000 * processor:>8.2f} {1000 * wall:>8.2f}")
    return 1 if wrong else 0


def requests(model: str, draw: random.Random, count: int, unknown: float) -> Iterator[Request]:
    """Yield operations of a correct object, in order. Half of those of unknown outcome happen."""
    value: object = None
    text = ""
    number = 0
    held = False
    queue: list[int] = []
    taken = 0
    elements: list[int] = []
    several = dict.fromkeys(NAMES)
    for index in range(count):
        coin, fate = draw.random(), draw.random()
        happens, status = fate >= unknown / 2, "info" if fate < unknown else "ok"
        if model == "register":
            if coin < 0.5:
                value = index if happens else value
                yield "write", index, UNKNOWN, status
            else:
                yield "read", None, value, status
        elif model == "kv":
            if coin < 0.5:
                text = str(index) if happens else text
                yield "put", str(index), UNKNOWN, status
            else:
                yield "get", None, text, status
        elif model == "multi-register":
            names = draw.sample(NAMES, 2)
            if coin < 0.5:
                several |= dict.fromkeys(names, index) if happens else {}
                yield (
                    "txn",
                    [("write", name, index) for name in names],
                    [("write", name, index) for name in names],
                    status,
                )
            else:
                yield "txn", [("read", name, None) for name in names], [("read", n, several[n]) for n in names], status
        elif model == "append-only-log":
            if coin < 0.5 or not elements:
                if happens:
                    elements.append(index)
                yield "append", index, len(elements) - 1, status
            else:
                offset = draw.randrange(len(elements) + 1)
                yield "read", offset, elements[offset] if offset < len(elements) else None, status
        elif model == "set":
            if coin < 0.5 or not elements:
                if happens:
                    elements.append(index)
                yield "add", index, UNKNOWN, status
            else:
                known = coin < 0.9
                yield "contains", draw.choice(elements) if known else -index, known, status
        elif model == "fifo-queue":
            if coin < 0.5:
                if happens:
                    queue.append(index)
                yield "enqueue", index, UNKNOWN, status
            elif taken < len(queue):
                taken += happens
                yield "dequeue", None, queue[taken - happens], status
            else:
                yield "dequeue", None, None, status
        elif model == "cas-register":
            old, new = draw.randrange(5), draw.randrange(5)
            if coin < 0.3:
                value = new if happens else value
                yield "write", new, UNKNOWN, status
            elif coin < 0.6:
                yield "read", None, value, status
            else:
                swapped = value == old
                value = new if swapped and happens else value
                yield "cas", (old, new), swapped, status
        elif model == "mutex":
            function = "release" if held else "acquire"
            held = held != happens
            yield function, None, UNKNOWN, status
        elif coin < 0.5:
            number += happens
            yield "add", 1, UNKNOWN, status
        else:
            yield "read", None, number, status


def made_up(model: str, count: int, clients: int, unknown: float) -> list[Operation]:
    """Generate a history in which so many clients have an operation open nearly all the time.

    A client whose operation has no known outcome goes on under another number.
    """
    draw = random.Random(f"{model}/{count}")
    reach = 10 * clients
    return [
        Operation(
            index % clients if status == "ok" else clients + index,
            10 * index - draw.randrange(reach // 2),
            10 * index + draw.randrange(reach // 2) if status == "ok" else None,
            function,
            argument,
            result,
            "ok" if status == "ok" else "info",
        )
        for index, (function, argument, result, status) in enumerate(requests(model, draw, count, unknown))
    ]


def large(only: str | None, count: int | None, clients: int, unknown: float) -> int:
    print(f"{clients} clients, {unknown:.0%} of unknown outcome")
    print(
        f"{'model':<18} {'operations':>12} {'configurations':>14} {'CPU s':>9} {'operations/s':>14} {'GB':>5}  verdict"
    )
    for model, usual in OPERATIONS.items():
        if only in (None, model):
            operations = made_up(model, count or usual, clients, unknown)
            before_gb = _memory_gb()
            seconds, _, verdict = decided(operations, model, DEFAULT, 1)
            number, visited = len(operations), verdict.counts["configurations"]
            print(
                f"{model:<18} {number:>12,} {visited:>14,} {seconds:>9.2f} {number / seconds:>12,.0f} "
                f"{max(0.0, _memory_gb() - before_gb):>5.1f}  {verdict.outcome}: {verdict.reason}",
                flush=True,
            )
    return 0


def _memory_gb() -> float:
    """The most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    of_corpus = commands.add_parser("corpus")
    of_corpus.add_argument("directory", type=Path)
    of_corpus.add_argument("--rounds", type=int, default=7)
    of_large = commands.add_parser("large")
    of_large.add_argument("--model", choices=sorted(OPERATIONS))
    of_large.add_argument("--operations", type=int, help="a million or 200,000 by default")
    of_large.add_argument("--clients", type=int, default=CLIENTS)
    of_large.add_argument("--unknown", type=float, default=0.0, help="share of operations of unknown outcome")
    chosen = parser.parse_args()
    if chosen.command == "corpus":
        return corpus(chosen.directory, chosen.rounds)
    return large(chosen.model, chosen.operations, chosen.clients, chosen.unknown)


if __name__ == "__main__":
    sys.exit(main())
