"""Finds followers whose logs were longer than their leader's, and that went on without cutting them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from common.wording import count, in_leader_epoch, moment, nodes
from incidents.partition_history import PartitionHistory, Sample


class LongerLog(NamedTuple):
    """A follower with a longer log than its leader had, in the same leader epoch."""

    follower: Sample
    leader: Sample
    joined_ns: int | None
    """When it was first seen in the ISR again; None if it never left that, or only appended to its log."""
    went_on_ns: int

    @property
    def sentence(self) -> str:
        """What samples show."""
        led = f"broker {self.leader.broker}{in_leader_epoch(self.leader.leader_epoch)}"
        went_on = "had appended to it" if self.joined_ns is None else "was in the ISR again"
        return (
            f"Broker {self.follower.broker} followed {led}, with a log that ended at"
            f" {count(self.follower.log_end or 0)}, where the leader's had ended at"
            f" {count(self.leader.log_end or 0)}; it did not cut it, and {went_on} by {moment(self.went_on_ns)}."
        )


def longer_logs(history: PartitionHistory, until_ns: int | None = None) -> list[LongerLog]:
    """Return the followers that went on with a longer log than their leader's, one for each leader epoch.

    What a broker's log had before it followed, beyond the end with which its leader began, is not the leader's; and a
    leader whose log is shorter later had a shorter one then. A follower has to cut that off once it has heard of its
    leader (TR-1): that it has is known when it is in the ISR again, or has appended. Only of brokers whose own logs
    tell when they cut, as samples may show none. `until_ns`: only of those that were seen by then.
    """
    found: dict[tuple[int, int, int], LongerLog] = {}
    last: dict[int, Sample] = {}
    leading: dict[tuple[int, int], list[Sample]] = {}
    for sample in history.leading:
        if sample.log_end is not None:
            leading.setdefault((sample.broker, sample.leader_epoch), []).append(sample)
    for sample in history.samples:
        before = last.get(sample.broker, sample)
        last[sample.broker] = sample
        key = (sample.broker, sample.leader, sample.leader_epoch)
        if sample.role != "follower" or sample.leader_epoch < 0 or sample.log_end is None or key in found:
            continue
        if sample.broker not in history.tellers:
            continue
        if until_ns is not None and sample.at_ns > until_ns:
            break
        led = leading.get(key[1:], [])
        shorter = _shorter(led, before, sample)
        if shorter is None or _is_cut(history, sample, shorter):
            continue
        joined_ns, appended_ns = _joined_ns(led, sample), _appended_ns(history, sample)
        went_on = [at_ns for at_ns in (joined_ns, appended_ns) if at_ns is not None]
        if went_on:
            found[key] = LongerLog(sample, shorter, joined_ns if min(went_on) == joined_ns else None, min(went_on))
    return list(found.values())


def _shorter(led: Sequence[Sample], before: Sample, sample: Sample) -> Sample | None:
    """Return a sample of a leader that shows that a follower's log had what the leader's had not."""
    began = [
        one for one in led[:1] if before.leader_epoch < one.leader_epoch and (one.log_end or 0) < (before.log_end or 0)
    ]
    place = bisect_left(led, sample.at_ns, key=attrgetter("at_ns"))
    candidates = (*began, *led[place : place + 1])
    return next((one for one in candidates if (one.log_end or 0) < (sample.log_end or 0)), None)


def _is_cut(history: PartitionHistory, sample: Sample, shorter: Sample) -> bool:
    since_ns = min(sample.at_ns, shorter.at_ns)
    later = (cut for cut in history.cuts if cut.broker == sample.broker and cut.at_ns >= since_ns)
    return any(cut.log_end < (sample.log_end or 0) for cut in later)


def _joined_ns(led: Iterable[Sample], sample: Sample) -> int | None:
    """When a follower was first seen in its leader's ISR again; None if it was in it all the time, or never."""
    was_out = False
    for one in led:
        was_out = was_out or sample.broker not in one.isr
        if was_out and one.at_ns >= sample.at_ns and sample.broker in one.isr:
            return one.at_ns
    return None


def _appended_ns(history: PartitionHistory, sample: Sample) -> int | None:
    own = (sample.broker, sample.leader, sample.leader_epoch)
    later = (one for one in history.samples if one.at_ns > sample.at_ns and one.role == "follower")
    mine = (one for one in later if own == (one.broker, one.leader, one.leader_epoch))
    return next((one.at_ns for one in mine if (one.log_end or 0) > (sample.log_end or 0)), None)


def not_cut(longer: Iterable[LongerLog]) -> str:
    """Say who went on with longer logs than their leader's, a clause; empty if nobody did, or under several leaders."""
    pairs = dict.fromkeys((one.follower.broker, one.leader.broker) for one in longer)
    leaders = {leader for _, leader in pairs}
    if len(leaders) != 1:
        return ""
    followers = sorted(follower for follower, _ in pairs)
    own = "its own" if len(followers) == 1 else "theirs"
    return (
        f"broker {next(iter(leaders))} led with a shorter log than {nodes(followers)}, which followed it and did not"
        f" cut {own}"
    )
