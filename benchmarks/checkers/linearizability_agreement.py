"""Compares the kernels with a search of every order, on many small random histories.

    python -m benchmarks.checkers.linearizability_agreement --histories 100000 [--model register] [--dense]

`--dense` draws longer histories, of few kinds of operations and with half of all outcomes lost. Prints one line per
model: histories, how many are linearizable, how many a special case decided too, seconds of processor time, and the
seeds of disagreements, which end the command with status 1.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.checkers.linearizability.agreement import dense_disagreements, disagreements
from tests.checkers.linearizability.sequential_objects import OBJECTS

FIRST_SEED = 1_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--histories", type=int, default=100_000)
    parser.add_argument("--model", choices=list(OBJECTS), action="append")
    parser.add_argument("--dense", action="store_true", help="few kinds of operations, half of the outcomes lost")
    chosen = parser.parse_args()
    compare = dense_disagreements if chosen.dense else disagreements
    status = 0
    for model in chosen.model or OBJECTS:
        began = time.process_time()
        wrong, counts = compare(model, range(FIRST_SEED, FIRST_SEED + chosen.histories))
        quickly = counts["special"] + counts["special not"]
        print(
            f"{model:<16} {chosen.histories:>9,} histories {counts['linearizable']:>9,} linearizable"
            f" {quickly:>9,} by a special case too {time.process_time() - began:>7.1f} s  "
            + (f"DISAGREE: {wrong[:20]}" if wrong else "agree"),
            flush=True,
        )
        status = max(status, int(bool(wrong)))
    return status


if __name__ == "__main__":
    sys.exit(main())
