"""Measures the linearizability kernels: their time alone, without start-up and reading of files.

    python -m benchmarks.checkers.linearizability corpus DIRECTORY   every file of foreign histories
    python -m benchmarks.checkers.linearizability large              generated, of a correct object, one key each

`corpus` prints a line a file: operations, configurations visited, medians of processor and wall time, verdict; then the
sums of the medians. The kernels run on one thread: on an idle machine both times are the same.
Where the directory has a `linearizability.json` with the known verdicts, a wrong one ends the command with status 1.
`large` prints operations a second of processor time, for the special cases and for searches.
"""

from __future__ import annotations

import argparse
import json
import random
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
    "cas-register": 200_000,
    "counter": 200_000,
}
CONCURRENCY = 8


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


def requests(model: str, draw: random.Random, count: int) -> Iterator[tuple[str, object, object]]:
    """Yield operations of a correct object, in order: function, argument, result."""
    value: object = None
    number = 0
    queue: list[int] = []
    taken = 0
    elements: list[int] = []
    for index in range(count):
        coin = draw.random()
        if model == "register":
            if coin < 0.5:
                value = index
                yield "write", index, UNKNOWN
            else:
                yield "read", None, value
        elif model == "append-only-log":
            if coin < 0.5 or not elements:
                elements.append(index)
                yield "append", index, len(elements) - 1
            else:
                offset = draw.randrange(len(elements) + 1)
                yield "read", offset, elements[offset] if offset < len(elements) else None
        elif model == "set":
            if coin < 0.5 or not elements:
                elements.append(index)
                yield "add", index, UNKNOWN
            else:
                known = coin < 0.9
                yield "contains", draw.choice(elements) if known else -index, known
        elif model == "fifo-queue":
            if coin < 0.5:
                queue.append(index)
                yield "enqueue", index, UNKNOWN
            elif taken < len(queue):
                taken += 1
                yield "dequeue", None, queue[taken - 1]
            else:
                yield "dequeue", None, None
        elif model == "cas-register":
            old, new = draw.randrange(5), draw.randrange(5)
            if coin < 0.3:
                value = new
                yield "write", new, UNKNOWN
            elif coin < 0.6:
                yield "read", None, value
            else:
                swapped = value == old
                value = new if swapped else value
                yield "cas", (old, new), swapped
        elif coin < 0.5:
            number += 1
            yield "add", 1, UNKNOWN
        else:
            yield "read", None, number


def made_up(model: str, count: int) -> list[Operation]:
    """Generate a history in which about `CONCURRENCY` operations are open at a time."""
    draw = random.Random(f"{model}/{count}")
    reach = 10 * CONCURRENCY
    return [
        Operation(
            index % CONCURRENCY,
            10 * index - draw.randrange(reach // 2),
            10 * index + draw.randrange(reach // 2),
            function,
            argument,
            result,
        )
        for index, (function, argument, result) in enumerate(requests(model, draw, count))
    ]


def large(only: str | None) -> int:
    print(f"{'model':<18} {'operations':>12} {'configurations':>14} {'CPU s':>9} {'operations/s':>14}  verdict")
    for model, count in OPERATIONS.items():
        if only in (None, model):
            operations = made_up(model, count)
            seconds, _, verdict = decided(operations, model, DEFAULT, 1)
            visited = verdict.counts["configurations"]
            print(
                f"{model:<18} {count:>12,} {visited:>14,} {seconds:>9.2f} {count / seconds:>14,.0f}  {verdict.outcome}"
            )
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    of_corpus = commands.add_parser("corpus")
    of_corpus.add_argument("directory", type=Path)
    of_corpus.add_argument("--rounds", type=int, default=7)
    commands.add_parser("large").add_argument("--model", choices=sorted(OPERATIONS))
    chosen = parser.parse_args()
    return corpus(chosen.directory, chosen.rounds) if chosen.command == "corpus" else large(chosen.model)


if __name__ == "__main__":
    sys.exit(main())
