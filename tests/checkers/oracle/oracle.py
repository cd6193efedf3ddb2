"""The anomalies of `docs/reference/checkers.md` a second time, as slow loops over a history's rows, without Spark.

Each function takes a `Rows` and returns its findings, as the keys that `tests.checkers.oracle.agreement` compares. They
are for histories of one partition, with idempotence and without faults, whose rows all make sense.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tests.checkers.oracle.oracle_rows import Row, Rows

Key = tuple[Any, ...]
FOREVER = 1 << 62


def is_acknowledged(send: Row) -> bool:
    return send["status"] == "ok" and send["acks"] in (-1, 1)


# --- loss ----------------------------------------------------------------------------------------------------------


def lost_acked_write(rows: Rows) -> Iterator[Key]:
    for send in filter(is_acknowledged, rows.sends):
        value, offset = send["value"], send["offset"]
        if rows.in_final(value):
            continue
        if rows.is_complete() or (offset is not None and rows.is_passed_over(value)):
            yield (value,)
        elif offset is not None and not rows.ok_reads_of(value):
            passed = any(
                poll["kind"] == "poll" and poll["status"] == "ok" and poll["position"] <= offset < poll["next_position"]
                for poll in rows.polls
            )
            taken = any(
                read["offset"] == offset
                and read["value"] not in (None, value)
                and read["completed_ns"] < send["invoked_ns"]
                for read in rows.reads
            )
            if passed and not taken:
                yield (value,)


def lost_read(rows: Rows) -> Iterator[Key]:
    for value in rows.values():
        is_gone = rows.ok_reads_of(value) and not rows.in_final(value)
        if is_gone and (rows.is_complete() or rows.is_passed_over(value)):
            yield (value,)


def unseen(rows: Rows) -> Iterator[Key]:
    if not rows.is_complete():
        lost = set(lost_acked_write(rows))
        for send in filter(is_acknowledged, rows.sends):
            if not rows.reads_of(send["value"]) and (send["value"],) not in lost:
                yield (send["value"],)


def _leads_since(samples: Sequence[Row], sample: Row) -> int:
    """When a leader was first seen in office, of its samples: without a break, and its high watermark never fell."""
    since = sample
    for before in reversed(samples[: samples.index(sample)]):
        same = before["role"] == "leader" and before["leader_epoch"] == since["leader_epoch"]
        known = None not in (before["high_watermark"], since["high_watermark"])
        if not same or (known and since["high_watermark"] < before["high_watermark"]):
            break
        since = before
    return since["at_ns"]


def _was_called_committed(rows: Rows, value: int) -> bool:
    """Whether an answer that showed a value first had a high watermark above it; a value may be at several offsets."""
    reads = rows.ok_reads_of(value)
    first_ns = min(read["completed_ns"] for read in reads)
    told = {poll["op"]: poll["high_watermark"] for poll in rows.polls if poll["op"] in {read["op"] for read in reads}}
    first = [(told[read["op"]], read["offset"]) for read in reads if read["completed_ns"] == first_ns]
    return any(high_watermark is not None and high_watermark > offset for high_watermark, offset in first)


def dirty_read(rows: Rows) -> Iterator[Key]:
    gone = set(lost_read(rows))
    for send in rows.sends:
        if (send["value"],) in gone and not is_acknowledged(send) and not _was_called_committed(rows, send["value"]):
            yield (send["value"],)
    for poll in rows.polls:
        reads = [read for read in rows.reads if read["op"] == poll["op"]]
        samples = [sample for sample in rows.samples if sample["broker"] == poll["node"]]
        for before, sample in zip(samples, samples[1:], strict=False):
            if reads and before["at_ns"] > poll["completed_ns"] and sample["role"] == "leader":
                in_office = _leads_since(samples, sample) <= poll["invoked_ns"]
                furthest = max(reads, key=lambda read: (read["offset"], -1 if read["value"] is None else read["value"]))
                if in_office and sample["high_watermark"] <= furthest["offset"]:
                    yield (furthest["value"],)
                break


# --- values and offsets --------------------------------------------------------------------------------------------


def inconsistent_offset(rows: Rows) -> Iterator[Key]:
    at: dict[int, set[int]] = {}
    for read in rows.reads:
        if read["value"] is not None:
            at.setdefault(read["offset"], set()).add(read["value"])
    for send in rows.sends:
        if send["offset"] is not None and rows.is_committed(send):
            at.setdefault(send["offset"], set()).add(send["value"])
    for offset, values in at.items():
        if len(values) > 1:
            yield (offset,)


def wrong_offset(rows: Rows) -> Iterator[Key]:
    for send in filter(is_acknowledged, rows.sends):
        at_other_offsets = [read for read in rows.reads_of(send["value"]) if read["offset"] != send["offset"]]
        if send["offset"] is not None and rows.ok_reads_of(send["value"]) and at_other_offsets:
            yield (send["value"],)


def duplicate(rows: Rows) -> Iterator[Key]:
    for value in rows.values():
        offsets = {read["offset"] for read in rows.reads_of(value)}
        for send in rows.sends:
            if send["value"] == value and send["offset"] is not None and rows.is_committed(send):
                offsets.add(send["offset"])
        if len(offsets) > 1:
            yield (value,)


def phantom_read(rows: Rows) -> Iterator[Key]:
    sent = {send["value"] for send in rows.sends}
    for read in rows.reads:
        if read["value"] is not None and read["value"] not in sent:
            yield (read["value"],)


def aborted_read(rows: Rows) -> Iterator[Key]:
    for send in rows.sends:
        if send["status"] == "fail" and rows.reads_of(send["value"]):
            yield (send["value"],)


def corrupt_record(rows: Rows) -> Iterator[Key]:
    for read in rows.reads:
        if read["value"] is None:
            yield read["op"], read["offset"]


# --- order ---------------------------------------------------------------------------------------------------------


def reordered_send(rows: Rows) -> Iterator[Key]:
    """Those of other processes and of its own: which of the two is reported depends on the highest offset."""
    yield from nonmonotonic_send(rows)
    sends = [send for send in rows.happened() if send["acks"] != 0]
    for send in sends:
        alike = [w for w in sends if w["acks"] == send["acks"]]
        if any(w["completed_ns"] < send["invoked_ns"] and w["offset"] > send["offset"] for w in alike):
            yield (send["op"],)


def nonmonotonic_send(rows: Rows) -> Iterator[Key]:
    sends = [send for send in rows.happened() if send["acks"] != 0]
    for send in sends:
        own = [w for w in sends if (w["process"], w["acks"]) == (send["process"], send["acks"])]
        before = [w for w in own if (w["invoked_ns"], w["op"]) < (send["invoked_ns"], send["op"])]
        if any(w["completed_ns"] <= send["invoked_ns"] and w["offset"] > send["offset"] for w in before):
            yield (send["op"],)


def stale_read(rows: Rows) -> Iterator[Key]:
    shown = [(s["completed_ns"], s["offset"]) for s in rows.happened() if "served_ns" not in s and s["acks"] == -1]
    shown += [(min(s["served_ns"]), s["offset"]) for s in rows.happened() if s.get("served_ns")]
    for poll in rows.polls:
        if poll["status"] != "ok":
            continue
        if poll["kind"] == "latest":
            offset = poll["next_position"]
        elif poll["records"] == 0 and (poll["node"] is not None or poll["high_watermark"] is not None):
            offset = poll["position"]
        else:
            continue
        if any(known_ns < poll["invoked_ns"] and known >= offset for known_ns, known in shown):
            yield (poll["op"],)


def end_offset_regression(rows: Rows) -> Iterator[Key]:
    shown = []
    for poll in rows.polls:
        end = poll["next_position"] if poll["kind"] == "latest" else poll.get("high_watermark")
        if poll["status"] == "ok" and end is not None:
            shown.append((poll["invoked_ns"], poll["completed_ns"], end, poll["op"]))
    for invoked_ns, _, end, op in shown:
        if any(known_ns < invoked_ns and before > end for _, known_ns, before, _ in shown):
            yield (op,)


def _polls_of(rows: Rows) -> Iterator[list[Row]]:
    for process in {poll["process"] for poll in rows.polls}:
        own = [poll for poll in rows.polls if poll["process"] == process and poll["kind"] == "poll"]
        yield sorted(own, key=lambda poll: (poll["invoked_ns"], poll["op"]))


def nonmonotonic_poll(rows: Rows) -> Iterator[Key]:
    for polls in _polls_of(rows):
        for before, poll in zip(polls, polls[1:], strict=False):
            if poll["position"] < before["next_position"] and not poll["assigned"]:
                yield (poll["op"],)
    for poll in rows.polls:
        offsets = [read["offset"] for read in rows.reads if read["op"] == poll["op"]]
        if offsets != sorted(set(offsets)):
            yield (poll["op"],)


def skipped_poll(rows: Rows) -> Iterator[Key]:
    known = {read["offset"] for read in rows.reads}
    known |= {s["offset"] for s in rows.sends if s["offset"] is not None and rows.is_committed(s)}
    for polls in _polls_of(rows):
        at: int | None = None  # offset that was read last, on a way that is not broken
        for poll in polls:
            if poll["assigned"] or poll["status"] != "ok":
                at = None
            for read in (read for read in rows.reads if read["op"] == poll["op"]):
                jumped = at is not None and any(at < offset < read["offset"] for offset in known)
                if jumped and poll["status"] == "ok":
                    yield poll["op"], read["offset"]
                at = read["offset"]
            if poll["status"] != "ok":
                at = None


# --- replicas ------------------------------------------------------------------------------------------------------


def _by_broker(rows: Rows) -> dict[int, list[Row]]:
    brokers = {row["broker"] for row in rows.logs}
    return {broker: [row for row in rows.logs if row["broker"] == broker] for broker in brokers}


def divergent_replicas(rows: Rows) -> Iterator[Key]:
    replicas = _by_broker(rows)
    for offset in {row["offset"] for row in rows.logs}:
        held = []
        for log in replicas.values():
            start = 0 if rows.samples else log[0]["offset"]  # samples show that nothing was deleted
            if start <= offset < log[0]["high_watermark"]:
                there = [(row["value"], row["leader_epoch"], row["crc"]) for row in log if row["offset"] == offset]
                held.append(there[0] if there else None)
        if any(held) and len(set(held)) > 1:
            yield (offset,)


def epoch_regression(rows: Rows) -> Iterator[Key]:
    for broker, log in _by_broker(rows).items():
        for offset in _last_of_regressions([(row["offset"], row["leader_epoch"]) for row in log]):
            yield broker, None, offset
    for poll in rows.polls:
        reads = [read for read in rows.reads if read["op"] == poll["op"]]
        for index in _last_of_regressions([(number, read["leader_epoch"]) for number, read in enumerate(reads)]):
            yield None, poll["op"], reads[index]["offset"]


def _last_of_regressions(records: Iterable[tuple[int, int]]) -> Iterator[int]:
    records = list(records)
    for epoch in {epoch for _, epoch in records}:
        last = max(index for index, each in records if each == epoch)
        if any(each > epoch and index < last for index, each in records):
            yield last


def two_leaders(rows: Rows) -> Iterator[Key]:
    for row in rows.logs:
        for other in rows.logs:
            same = row["offset"] == other["offset"] and row["leader_epoch"] == other["leader_epoch"]
            if same and row["value"] != other["value"]:
                yield row["offset"], None
    leading = [sample for sample in rows.samples if sample["role"] == "leader"]
    for epoch in {sample["leader_epoch"] for sample in leading}:
        of_epoch = [sample for sample in leading if sample["leader_epoch"] == epoch]
        if len({sample["broker"] for sample in of_epoch}) > 1:
            yield None, max(sample["at_ns"] for sample in of_epoch)


# --- availability --------------------------------------------------------------------------------------------------


def unavailable(rows: Rows) -> Iterator[Key]:
    healed_ns, bound_ns = rows.healed_ns, rows.bound_ns

    def within(at_ns: int | None) -> bool:
        return at_ns is not None and healed_ns < at_ns <= bound_ns

    def all_the_time(spans: list[tuple[int, int | None]]) -> bool:
        quarter = (bound_ns - healed_ns) / 4
        starts = [healed_ns + quarter * number for number in range(4)]
        return all(
            any(begins <= start + quarter and (begins if ends is None else ends) >= start for begins, ends in spans)
            for start in starts
        )

    sends = [(send["invoked_ns"], send["completed_ns"]) for send in rows.sends]
    acknowledged = any(send["status"] == "ok" and within(send["completed_ns"]) for send in rows.sends)
    if all_the_time(sends) and not acknowledged:
        yield "no-acknowledged-write", None
    readable = [
        send["offset"]
        for send in rows.sends
        if send["status"] == "ok" and send["acks"] == -1 and send["completed_ns"] <= healed_ns
        if send["offset"] is not None
    ]
    for polls in _polls_of(rows):
        answered = [poll for poll in polls if poll["status"] == "ok"]
        reached = [poll["next_position"] for poll in answered if poll["completed_ns"] <= healed_ns]
        progress = any(poll["records"] and within(poll["completed_ns"]) for poll in answered)
        trying = all_the_time([(poll["invoked_ns"], poll["completed_ns"]) for poll in polls])
        if trying and not progress and reached and readable and max(reached) <= max(readable):
            yield "no-progress-of-readers", polls[0]["process"]
    samples = [sample for sample in rows.samples if sample["at_ns"] > healed_ns]
    full = any(s["role"] == "leader" and len(s["isr"]) == 3 and within(s["at_ns"]) for s in samples)
    if all_the_time([(sample["at_ns"], None) for sample in samples]) and not full:
        yield "isr-not-full", None


# --- groups --------------------------------------------------------------------------------------------------------


def _ends_ns(commit: Row) -> int:
    return commit["completed_ns"] if commit["status"] == "ok" else FOREVER


def _told(answer: Row) -> int:
    return -1 if answer["offset"] is None else answer["offset"]


def lost_commit(rows: Rows) -> Iterator[Key]:
    for answer in rows.answers:
        over = [c for c in rows.commits if c["status"] == "ok" and c["completed_ns"] < answer["invoked_ns"]]
        explained = any(
            commit["offset"] == answer["offset"]
            and commit["invoked_ns"] <= answer["completed_ns"]
            and not any(_ends_ns(commit) < later["invoked_ns"] for later in over)
            for commit in rows.commits
        )
        if over and not explained:
            yield (answer["op"],)


def committed_offset_regression(rows: Rows) -> Iterator[Key]:
    for answer in rows.answers:
        earlier = [a for a in rows.answers if a["completed_ns"] < answer["invoked_ns"]]
        if not earlier:
            continue
        offset = _told(answer)
        before = max(earlier, key=lambda a: (a["invoked_ns"], a["completed_ns"], _told(a)))
        between = any(
            commit["offset"] == offset
            and commit["invoked_ns"] <= answer["completed_ns"]
            and _ends_ns(commit) >= before["invoked_ns"]
            for commit in rows.commits
        )
        if _told(before) > offset and not between:
            yield (answer["op"],)
    ok = [commit for commit in rows.commits if commit["status"] == "ok"]
    for commit in ok:
        over = [(c["generation"], c["offset"]) for c in ok if c["completed_ns"] < commit["invoked_ns"]]
        if over and max(over)[0] > commit["generation"] and max(over)[1] > commit["offset"]:
            yield (commit["op"],)


def double_ownership(rows: Rows) -> Iterator[Key]:
    for tenure in rows.ownerships:
        for other in rows.ownerships:
            began = (other["since_ns"], other["member"]) < (tenure["since_ns"], tenure["member"])
            both = other["until_ns"] is not None and tenure["since_ns"] < other["until_ns"]
            if began and both and other["generation"] == tenure["generation"] and other["member"] != tenure["member"]:
                yield tenure["process"], tenure["since_ns"]


ORACLE: dict[str, Callable[[Rows], Iterator[Key]]] = {
    "lost-acked-write": lost_acked_write,
    "lost-read": lost_read,
    "unseen": unseen,
    "dirty-read": dirty_read,
    "inconsistent-offset": inconsistent_offset,
    "wrong-offset": wrong_offset,
    "duplicate": duplicate,
    "phantom-read": phantom_read,
    "aborted-read": aborted_read,
    "corrupt-record": corrupt_record,
    "reordered-send": reordered_send,
    "nonmonotonic-send": nonmonotonic_send,
    "stale-read": stale_read,
    "end-offset-regression": end_offset_regression,
    "nonmonotonic-poll": nonmonotonic_poll,
    "skipped-poll": skipped_poll,
    "divergent-replicas": divergent_replicas,
    "epoch-regression": epoch_regression,
    "two-leaders": two_leaders,
    "unavailable": unavailable,
    "lost-commit": lost_commit,
    "committed-offset-regression": committed_offset_regression,
    "double-ownership": double_ownership,
}
