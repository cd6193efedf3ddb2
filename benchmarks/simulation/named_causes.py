"""Compares the cause that incidents name with the known one, for every flaw that its directed schedule shows.

    python -m benchmarks.simulation.named_causes            the rate, and each schedule that misses
    python -m benchmarks.simulation.named_causes --all      every schedule

Each directed schedule is played on the build with its flaw, stored, and diagnosed from the stored run alone: the
configuration, which names the flaw, is not read. A cause is *named* if the evidence decides for the known one, and
*among the candidates* if it is one of those that the evidence leaves. About a minute on one core.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import click

from incidents import diagnose
from simulation.directed.files import schedules
from simulation.runs.stored import store_schedule_run

KNOWN: Final[Mapping[str, str]] = {
    "high-watermark-from-log-end": "committed-without-member",
    "believe-fetch-offset": "diverged-log-kept",
    "idle-isr-not-repaired": "no-progress",
    "truncate-to-high-watermark": "wrong-cut",
    "logs-not-compared": "diverged-log-kept",
    "epochless-divergence-answer": "diverged-log-kept",
    "leader-epoch-unchecked": "committed-without-member",
    "behind-follower-counts": "committed-without-member",
    "epoch-cached-at-first-append": "wrong-cut",
    "compare-only-with-new-leader": "diverged-log-kept",
    "join-below-epoch-start": "joined-too-early",
    "answer-before-commit": "metadata",
    "stale-broker-epoch-obeyed": "metadata",
    "leader-ignores-isr-updates": "no-progress",
    "high-watermark-not-kept": "log-bounds",
    "unclean-election": "unclean-election",
    "ack-before-replication": "acknowledged-early",
    "min-isr-unchecked": "acknowledged-early",
    "acks0-error-silent": "no-progress",
    "read-above-high-watermark": "dirty-read",
    "uncertain-end-offset": "new-leader",
    "high-watermark-before-cut": "log-bounds",
    "delete-above-high-watermark": "log-bounds",
    "no-start-inside-batch": "no-progress",
    "session-forgets-epoch": "committed-without-member",
    "high-watermark-below-log-start": "log-bounds",
    "current-isr-only": "isr-disagreement",
    "eager-shrink": "isr-disagreement",
    "partition-epoch-unchecked": "isr-disagreement",
    "rollback-on-any-error": "isr-disagreement",
    "old-metadata-applied": "isr-disagreement",
    "high-watermark-not-reconsidered": "no-progress",
    "future-epoch-refused": "wrong-refusal",
    "diverging-fetch-counts": "joined-too-early",
    "late-cut": "wrong-cut",
    "stale-answer-applied": "stale-answer",
    "later-epoch-appended": "stale-answer",
    "compare-only-after-records": "diverged-log-kept",
    "fenced-joins-isr": "fenced-member",
    "rebooted-joins-isr": "storage-loss",
    "check-then-build": "joined-too-early",
    "keep-last-in-sync": "storage-loss",
    "advance-below-min-isr": "committed-without-member",
    "join-below-high-watermark": "joined-too-early",
    "reassignment-ends-early": "reassignment",
    "remembered-after-reassignment": "emptied-replica",
    "removed-stays-eligible": "eligibility",
    "eligible-never-emptied": "eligibility",
    "unclean-stays-eligible": "storage-loss",
    "marker-written-early": "storage-loss",
    "every-restart-unclean": "eligibility",
    "registration-changes-nothing": "storage-loss",
    "fenced-leader-elected": "fenced-member",
    "min-isr-change-keeps-eligible": "eligibility",
    "exact-recovery-quorum": "no-progress",
    "stale-log-info-trusted": "wrong-recovery",
    "min-isr-of-maximal-isr": "committed-without-member",
    "producers-not-replicated": "producer-state",
    "producers-not-rolled-back": "producer-state",
    "append-after-error": "damaged-log",
    "epochs-not-cut": "log-bounds",
    "vote-not-remembered": "quorum",
    "lead-again-in-epoch": "quorum",
    "commit-earlier-epoch": "quorum",
    "quorum-ack-before-flush": "quorum",
    "quorum-leader-stays": "quorum",
    "no-pre-vote": "quorum",
    "metadata-cut-below-commit": "quorum",
    "fence-together": "fenced-member",
    "given-up-keeps-epoch": "emptied-replica",
    "in-sync-remembered-over-elections": "committed-without-member",
    "complete-replicas-given-up": "reassignment",
    "former-replica-elected": "reassignment",
    "late-log-info-taken": "node-crash",
    "recovery-waits-for-all": "no-progress",
    "recovery-only-on-return": "no-progress",
    "unclean-setting-for-later": "no-progress",
    "min-isr-of-own-file": "committed-without-member",
    "first-replica-for-longest-log": "wrong-recovery",
    "lookup-unfolds-anything": "wrong-lookup",
    "lookup-blind-to-codecs": "wrong-lookup",
    "cancelled-below-min-isr": "reassignment",
    "recovery-forgets-the-others": "wrong-recovery",
}
"""Flaw → the kind of cause (`incidents.causes`) that it is, by its summary in the catalogue of flaws.

For a flaw that only stops progress the known cause is that something does not progress, and no more.
"""

OTHER_SIDES: Final[Mapping[str, str]] = {
    # Its flaw cuts a log to the high watermark: too far in one schedule, and in this one not far enough.
    "divergence-after-hard-failures.toml": "diverged-log-kept",
    # Its flaw lets brokers and controllers differ in min ISR: here it is the controllers' that is lower.
    "min-isr-of-own-file.toml": "eligibility",
}
"""Schedule → its cause, where it shows another side of its flaw than `KNOWN` says."""


class Diagnosed(NamedTuple):
    """What the stored run of one flaw's schedule is diagnosed as."""

    flaw: str
    schedule: str
    known: str
    causes: tuple[str, ...]
    headline: str

    @property
    def named(self) -> bool:
        """Whether the evidence decides for the known cause."""
        return self.causes == (self.known,)

    @property
    def among(self) -> bool:
        """Whether the known cause is among those that the evidence leaves."""
        return self.known in self.causes


def diagnosed() -> Iterator[Diagnosed]:
    """Play, store and diagnose every schedule whose flawed build fails."""
    with tempfile.TemporaryDirectory(prefix="harrow-causes-") as scratch:
        for flaw, paths in schedules().items():
            for number, path in enumerate(paths):
                directory = Path(scratch) / f"{flaw}-{number}"
                directory.mkdir()
                if not store_schedule_run(directory, path, flawed=True).failed:
                    continue
                incident = next(iter(diagnose(directory)), None)
                causes = () if incident is None else tuple(cause.kind for cause in incident.causes)
                headline = "" if incident is None else incident.headline
                known = OTHER_SIDES.get(path.name, KNOWN[flaw])
                yield Diagnosed(flaw, path.name, known, causes, headline)


@click.command()
@click.option("--all", "show_all", is_flag=True, help="Print every schedule, not only those that miss.")
def main(show_all: bool) -> None:
    """Print how often the named cause is the known one."""
    found = list(diagnosed())
    for one in found:
        if show_all or not one.named:
            click.echo(f"{one.flaw}: known {one.known}, found {' or '.join(one.causes) or 'none'}\n  {one.headline}")
    named, among = sum(one.named for one in found), sum(one.among for one in found)
    click.echo(f"named the known cause: {named} of {len(found)} ({named / len(found):.0%})")
    click.echo(f"known cause named or among the candidates: {among} of {len(found)} ({among / len(found):.0%})")


if __name__ == "__main__":
    main()
