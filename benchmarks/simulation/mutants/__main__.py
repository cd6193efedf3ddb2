"""Makes mutants of broker/core, and hunts them in the simulator and by the tests: it tells which mistakes would pass.

    python -m benchmarks.simulation.mutants --list                        every mutant: thousands
    python -m benchmarks.simulation.mutants --count 60 --seeds 1:61       hunts a sample
    python -m benchmarks.simulation.mutants --search usual                in seeds as `harrow sim` draws them
    python -m benchmarks.simulation.mutants --count 0 --page FILE         writes the page of what has been hunted
    python -m benchmarks.simulation.mutants --count 0 --page FILE --again LATER.jsonl
                                                                          and what a later hunt has found of it
    python -m benchmarks.simulation.mutants --only 'log/log:Log.flush'    those whose ids contain that
    python -m benchmarks.simulation.mutants --seed 9107 --apart-from EARLIER.jsonl
                                                                          a sample without those of another

A *mutant* is the broker with one small change that people make by mistake (`operators.py` lists the kinds). First, all
seeds are simulated with the correct broker, with a probe for each mutant (`probes.py`): whether its changed part is
carried out at all, and whether it would have acted differently. Those that never do are set aside. Of the others a
sample is hunted: each in the seeds in which it acts differently, observed, until one fails by a property that the
correct broker keeps there; those that the simulator misses are then shown to the tests of the broker's core.

Equal `--seed`s sample equal mutants; a larger `--count` adds to a smaller one. Properties that were written with the
misses of a sample in view say nothing by finding them; `--apart-from` leaves out what an earlier hunt has hunted.
Results are appended to `--results` as they come, so an interrupted command continues. Nothing is written into the work
tree but that file: a mutant is put into a process. `--tests none` leaves the tests out. Exit status: 0 if nothing
survives, 1 if something does, 2 for a wrong command, 3 if it was interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Set
from pathlib import Path

from benchmarks.simulation.mutants import hunting
from benchmarks.simulation.mutants.making import Mutant, all_mutants, fingerprint, sample
from benchmarks.simulation.mutants.page import page, reasons, summary
from benchmarks.simulation.mutants.results import Results
from benchmarks.simulation.mutants.testing import FailingTests
from simulation.runs.pool import cores
from simulation.scenario.search import SEARCHES

SEARCH = "mixed"
"""It finds what `usual` finds, in two thirds of the time."""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.simulation.mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=60, metavar="N", help="mutants that are hunted")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument(
        "--apart-from",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="leave out the mutants that are hunted in these results; may be repeated",
    )
    parser.add_argument("--seeds", type=_seeds, default=range(1, 61), metavar="A:B", help="from A to B, without B")
    parser.add_argument("--search", choices=SEARCHES, default=SEARCH, help="which simulations the seeds are")
    parser.add_argument("--only", metavar="TEXT", help="only mutants with this text in their ids")
    parser.add_argument("--tests", choices=("missed", "none"), default="missed", help="which mutants they are shown")
    parser.add_argument("--jobs", type=int, default=cores(), metavar="N", help="processes")
    parser.add_argument("--results", type=Path, default=Path("store/mutants.jsonl"), metavar="FILE")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page of the documentation")
    parser.add_argument(
        "--again",
        type=Path,
        metavar="FILE",
        help="results of a later hunt of the same sample: the page says what of the misses it has found",
    )
    parser.add_argument("--list", action="store_true", help="print the mutants and hunt none")
    options = parser.parse_args()
    mutants = all_mutants()
    if options.list:
        for mutant in mutants:
            if (options.only or "") in mutant.id:
                print(f"{mutant.id} (line {mutant.line})\n{mutant.diff}")
        return 0
    try:
        results = Results.open(options.results, fingerprint(mutants), options.seeds, options.search)
        again = None if options.again is None else Results.again(options.again)
        earlier = {mutant for path in options.apart_from for mutant in Results.again(path).hunted}
    except (OSError, ValueError) as error:
        parser.error(str(error))
    try:
        _hunted(mutants, earlier, results, options)
    except KeyboardInterrupt:
        print(f"interrupted; what has been found is in {options.results}", file=sys.stderr)
        return 3
    except FailingTests as error:
        print(error, file=sys.stderr)
        return 2
    figures = summary(mutants, results)
    print("\n".join(figures.lines()))
    if options.page is not None:
        options.page.write_text(page(mutants, results, reasons(), again), encoding="utf-8")
    return 1 if figures.survivors else 0


def _hunted(mutants: list[Mutant], earlier: Set[str], results: Results, options: argparse.Namespace) -> None:
    def tell(line: str) -> None:
        print(line, flush=True)

    hunting.probe_seeds(results, options.jobs, tell)
    acting = hunting.acting_in(results, mutants)
    wanted = [one for one in mutants if one.id in acting.keys() - earlier and (options.only or "") in one.id]
    chosen = sample(wanted, options.count, options.seed)
    hunting.hunt_in_simulator(results, chosen, acting, options.jobs, tell)
    if options.tests == "missed":
        hunting.show_to_tests(results, chosen, options.jobs, tell)


def _seeds(text: str) -> range:
    low, high = text.split(":")
    return range(int(low), int(high))


if __name__ == "__main__":
    sys.exit(main())
