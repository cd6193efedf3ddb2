"""Finds followers whose logs were longer than their leader's, and were not cut: where two logs stayed apart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from common.wording import count, in_leader_epoch, moment, nodes
from incidents.partition_history import PartitionHistory, Sample


class LongerLog(NamedTuple):
    """A follower that was sampled with a longer log than its leader had later, in the same leader epoch."""

    follower: Sample
    leader: Sample

    @property
    def told(self) -> str:
        """What the two samples show, a sentence."""
        led = f"broker {self.leader.broker}{in_leader_epoch(self.leader.leader_epoch)}"
        return (
            f"Broker {self.follower.broker} followed {led}, with a log that ended at"
            f" {count(self.follower.log_end or 0)} at {moment(self.follower.at_ns)}, and did not cut it: the leader's"
            f" ended at {count(self.leader.log_end or 0)} at {moment(self.leader.at_ns)}."
        )


def longer_logs(history: PartitionHistory, until_ns: int | None = None) -> list[LongerLog]:
    """Return the first samples of each follower in each leader epoch that show a longer log than its leader's.

    A leader's log only grows while it leads: so one that is shorter later was shorter then. None of a follower that cut
    its log afterwards, as it has to (TR-1). `until_ns`: only of epochs that were seen by then.
    """
    found: dict[tuple[int, int, int], LongerLog] = {}
    for sample in history.samples:
        key = (sample.broker, sample.leader, sample.leader_epoch)
        if sample.role != "follower" or sample.leader_epoch < 0 or sample.log_end is None or key in found:
            continue
        if until_ns is not None and sample.at_ns > until_ns:
            break
        later = _leader_after(history, sample)
        if later is not None and later.log_end is not None and later.log_end < sample.log_end:
            cuts = (cut for cut in history.cuts if cut.broker == sample.broker and cut.at_ns >= sample.at_ns)
            if not any(cut.log_end < sample.log_end for cut in cuts):
                found[key] = LongerLog(sample, later)
    return list(found.values())


def _leader_after(history: PartitionHistory, sample: Sample) -> Sample | None:
    own = (sample.leader, sample.leader_epoch)
    later = (one for one in history.leading if one.at_ns >= sample.at_ns)
    return next((one for one in later if (one.broker, one.leader_epoch) == own), None)


def not_cut(longer: Iterable[LongerLog]) -> str:
    """Say who followed whom with a longer log, a clause; empty if nobody did."""
    pairs = dict.fromkeys((one.follower.broker, one.leader.broker) for one in longer)
    leaders = {leader for _, leader in pairs}
    if len(leaders) != 1:
        return ""
    followers = sorted(follower for follower, _ in pairs)
    logs = "a longer log than its own" if len(followers) == 1 else "longer logs than its own"
    return f"{nodes(followers)} followed broker {next(iter(leaders))} with {logs}, and did not cut " + (
        "it" if len(followers) == 1 else "them"
    )
