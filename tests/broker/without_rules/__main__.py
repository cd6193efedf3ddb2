"""Takes each rule of the protocol out of the broker and runs its tests: prints the rules that no test holds.

    python -m tests.broker.without_rules                 all rules: a quarter of an hour of processor time
    python -m tests.broker.without_rules --rule HB-2     one rule: each mutant, and what notices it

A *mutant* is the broker without one decision: a function that names the rule answers at once, one of its conditions is
always True or always False, one clause is left out, or a known flaw is planted. It is noticed if a test fails. Status
1: a mutant that none notices and that is not explained (`tables.py`), or a row of docs/internals/spec-tests.md whose
own test does not notice that its rule is missing.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

from tests.broker.without_rules.mutants import Mutant, all_mutants, not_taken_out, rule_ids
from tests.broker.without_rules.report import Result, lines
from tests.broker.without_rules.rows import rows
from tests.broker.without_rules.runs import TESTS, Outcome, Plugin, try_out
from tests.broker.without_rules.tables import EQUIVALENT


def main() -> int:
    """Read the command line, try the mutants, print the report. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rule", action="append", metavar="ID", help="only this one, for instance HB-2")
    parser.add_argument("--match", action="append", metavar="TEXT", help="only mutants with this text in their names")
    parser.add_argument("--thorough", action="store_true", help="every clause outside of rule objects, too")
    parser.add_argument("--tests", action="append", metavar="PATH", help="other tests than those of the broker's core")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes")
    parser.add_argument("--list", action="store_true", help="name the mutants and try nothing")
    options = parser.parse_args()
    unknown = sorted(set(options.rule or ()) - set(rule_ids()))
    if unknown:
        parser.error(f"expected rules of docs/protocol.md that code carries out, found {', '.join(unknown)}")
    everything = all_mutants(thorough=options.thorough)
    chosen = [
        mutant
        for mutant in everything
        if any(text in mutant.name for text in options.match or [""])
        and (not options.rule or set(options.rule) & set(mutant.rules))
    ]
    if options.list:
        sys.stdout.writelines(f"{mutant.name}  {', '.join(mutant.rules)}\n" for mutant in chosen)
        return 0
    return _tried(chosen, everything, options)


def _tried(chosen: list[Mutant], everything: list[Mutant], options: argparse.Namespace) -> int:
    begun = time.monotonic()
    told = 0

    def tell(outcome: Outcome) -> None:
        nonlocal told
        told += 1
        by = outcome.noticed_by or ("explained" if outcome.mutant.name in EQUIVALENT else "NOT NOTICED")
        sys.stdout.write(f"{told}/{len(chosen)} {outcome.mutant.name}  {by} {outcome.how}".rstrip() + "\n")
        sys.stdout.flush()

    plugin = Plugin(chosen, rows(), options.jobs, tell)
    status = try_out(plugin, options.tests or TESTS)
    if status or plugin.failed:
        failed = "\n  ".join(plugin.failed) or "they cannot be collected"
        sys.stdout.write(f"expected tests that pass without a mutant, found\n  {failed}\n")
        return 2
    names = {mutant.name for mutant in chosen}
    partly = len(chosen) < len(everything)
    result = Result(
        plugin.outcomes,
        plugin.idle_rows,
        {name: why for name, why in EQUIVALENT.items() if name in names or not partly},
        frozenset(mutant.name for mutant in all_mutants(thorough=True)),
        {} if partly else not_taken_out(everything),
        time.monotonic() - begun,
        sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)),
    )
    sys.stdout.write("\n" + "\n".join(lines(result)) + "\n")
    return result.status


if __name__ == "__main__":
    sys.exit(main())
