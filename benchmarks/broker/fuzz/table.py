"""Words the outcome of a session as a table."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.broker.fuzz.sending import ANSWERED, CLOSED, SILENT, UNREACHABLE
from benchmarks.broker.fuzz.session import SPARED, Outcome
from benchmarks.broker.fuzz.watching import ANSWER_S_MAX, MEMORY_MB_MAX

_RESULTS = (ANSWERED, CLOSED, SILENT, UNREACHABLE, SPARED)


def lines(outcome: Outcome) -> Iterator[str]:
    """The table, line by line."""
    plan = outcome.plan
    yield f"{plan.listener}: seed {plan.seed}, {outcome.took_s:.0f} s"
    yield f"{'frames':26}" + "".join(f"{result:>13}" for result in _RESULTS)
    kinds = sorted({kind for kind, _ in outcome.results})
    for kind in kinds:
        yield f"{kind:26}" + "".join(f"{outcome.results[kind, result]:13,}" for result in _RESULTS)
    totals = [sum(outcome.results[kind, result] for kind in kinds) for result in _RESULTS]
    yield f"{f'all: {sum(totals):,}':26}" + "".join(f"{total:13,}" for total in totals)
    for why, count in sorted(outcome.spared.items()):
        yield f"left out: {why:50} {count:8,}"
    for number, health in sorted(outcome.health.items()):
        yield (
            f"node {number:3}: slowest of {health.probes:,} answers {health.slowest_s:.3f} s (at most "
            f"{ANSWER_S_MAX:.0f}; {health.slowest_with_waiting_s:.3f} s with waiting for a processor), memory "
            f"{health.memory_mb} MB (at most {MEMORY_MB_MAX}), {health.incidents} incidents"
        )
    if outcome.kept is not None:
        kept = outcome.kept
        yield (
            f"records: {kept.acknowledged:,} acknowledged, {kept.read:,} read, {len(kept.lost):,} lost, "
            f"{kept.doubled:,} twice, {kept.refused:,} refused; longest pause {kept.longest_pause_s:.1f} s"
        )
    yield f"{len(outcome.failures)} failures" + ("" if outcome.failures else ": none")
    for failure in outcome.failures[:20]:
        yield f"  {failure.kind}: {failure.text}"
    for path in outcome.files:
        yield f"  python -m benchmarks.broker.fuzz --replay {path}"
