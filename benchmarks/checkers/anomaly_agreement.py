"""Compares the checkers with plain loops over the rows, on many small random histories.

    python -m benchmarks.checkers.anomaly_agreement --histories 100000

Of a batch, two fifths are screened by the driver, as short histories are, two by Spark, and one by tasks that read
files, as long runs are; of these last, the ordinary and the malformed ones are left out. Prints a line an anomaly:
histories that show it; then the disagreements, which end the command with status 1.
"""

from __future__ import annotations

import argparse
import sys
import time

from checkers.spark import start_session
from tests.checkers.oracle.agreement import Agreement, Screener, compare
from tests.checkers.oracle.oracle import ORACLE

FIRST_SEED = 1 << 41
FIFTHS: dict[Screener, tuple[int, ...]] = {"driver": (0, 2), "spark": (1, 3), "files": (4,)}
"""Who screens which fifths of a batch."""
ROWS_OF_DISAGREEMENTS = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--histories", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=20_000, help="histories of a Spark job")
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="first seed")
    chosen = parser.parse_args()
    spark = start_session()
    total, began = Agreement(), time.monotonic()
    for first in range(chosen.first, chosen.first + chosen.histories, chosen.batch):
        last = min(first + chosen.batch, chosen.first + chosen.histories)
        seeds = range(first, last)
        for screener, fifths in FIFTHS.items():
            total.add(compare(spark, [seed for seed in seeds if seed % 5 in fifths], screener))
        print(f"{total.histories:>9,} histories, {time.monotonic() - began:,.0f} s", file=sys.stderr, flush=True)
    for name in ORACLE:
        print(f"{name:<28} shown by {total.shown[name]:>9,} of {total.histories:,}")
    for seed, anomaly, expected, actual in total.disagreements[:ROWS_OF_DISAGREEMENTS]:
        print(f"DISAGREE seed {seed} on {anomaly}: loops found {expected}, the checkers {actual}")
    print(
        f"{len(total.disagreements):,} disagreements; {len(total.unsuspected):,} findings where nothing was suspected"
    )
    return int(bool(total.disagreements or total.unsuspected))


if __name__ == "__main__":
    sys.exit(main())
