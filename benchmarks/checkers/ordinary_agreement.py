"""Compares the recognition of ordinary runs with plain loops over the rows, on many small random histories.

    python -m benchmarks.checkers.ordinary_agreement --histories 100000

The histories are correct ones of which a few cells are changed. Prints how many the loops find nothing in, how many of
these are recognised, and each history that is taken for ordinary though the loops find something in it; those end the
command with status 1. A history that loops cannot read, because a row lacks its operation, is not compared.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.checkers.screening.disturbed import disturbed, ordinary, shown_by

FIRST_SEED = 1 << 42
BATCH = 2_000
SHOWN = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--histories", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="first seed")
    chosen = parser.parse_args()
    recognised, without, wrong, shown = 0, 0, 0, Counter[str]()
    last = chosen.first + chosen.histories
    for first in range(chosen.first, last, BATCH):
        histories = [disturbed(seed) for seed in range(first, min(first + BATCH, last))]
        found = ordinary(histories)
        recognised += len(found)
        for history in histories:
            anomalies = shown_by(history)
            without += anomalies == set()
            shown.update(anomalies or ())
            if history.name in found and anomalies:
                wrong += 1
                if wrong <= SHOWN:
                    print(f"WRONG {history.name}: {sorted(anomalies)}")
    for name, number in shown.most_common():
        print(f"{name:<28} shown by {number:>9,}")
    print(
        f"{chosen.histories:,} histories: the loops find nothing in {without:,}; {recognised:,} are recognised as "
        f"ordinary, {wrong:,} of them wrongly"
    )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
