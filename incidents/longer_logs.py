"""Finds followers whose logs were longer than their leader's, and that went on without cutting them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    def told(self) -> str:
        """What samples show, a sentence."""
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
    for sample in history.samples:
        before = last.get(sample.broker, sample)
        last[sample.broker] = sample
        key = (sample.broker, sample.leader, sample.leader_epoch)
        if sample.role != "follower" or sample.leader_epoch < 0 or sample.log_end is None or key in found:
            continue
        if until_ns is not None and sample.at_ns > until_ns:
            break
        led = _led_by(history, sample)
        shorter = _shorter(led, before, sample)
        if shorter is None or sample.broker not in history.tellers or _is_cut(history, sample, shorter):
            continue
        joined_ns, appended_ns = _joined_ns(led, sample), _appended_ns(history, sample)
        went_on = [at_ns for at_ns in (joined_ns, appended_ns) if at_ns is not None]
        if went_on:
            found[key] = LongerLog(sample, shorter, joined_ns if min(went_on) == joined_ns else None, min(went_on))
    return list(found.values())


def _shorter(led: Sequence[Sample], before: Sample, sample: Sample) -> Sample | None:
    """Return a sample of a leader that shows that a follower's log had what the leader's had not."""
    known = [one for one in led if one.log_end is not None]
    began = [one for one in known[:1] if not _is_in(led, before) and (one.log_end or 0) < (before.log_end or 0)]
    later = [one for one in known if one.at_ns >= sample.at_ns][:1]
    return next((one for one in (*began, *later) if (one.log_end or 0) < (sample.log_end or 0)), None)


def _is_in(led: Sequence[Sample], sample: Sample) -> bool:
    """Whether a sample is of the leader epoch of some leader's samples, or of a later one."""
    return bool(led) and sample.leader_epoch >= led[0].leader_epoch


def _led_by(history: PartitionHistory, sample: Sample) -> list[Sample]:
    own = (sample.leader, sample.leader_epoch)
    return [one for one in history.leading if (one.broker, one.leader_epoch) == own]


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
    grown = (one.at_ns for one in later if own == (one.broker, one.leader, one.leader_epoch))
    ends = {one.at_ns: one.log_end or 0 for one in history.samples if one.broker == sample.broker}
    return next((at_ns for at_ns in grown if ends[at_ns] > (sample.log_end or 0)), None)


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
