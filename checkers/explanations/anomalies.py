"""Explains each finding in one to three sentences, for a reader who did not watch the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from checkers.explanations.groups import GROUP_EXPLANATIONS
from checkers.explanations.wording import Details, Row, by, invoked, partition, seconds, times
from checkers.input.run_facts import RecordedFault
from checkers.relations.resolved_outcomes import NAME as RESOLVED
from history.anomalies import CATALOGUE, MALFORMED


def explanation(row: Row, details: Details, faults: Sequence[RecordedFault], replicas: Mapping[int, int | None]) -> str:
    """Say what happened, what the replicas' logs hold there, and which faults were near."""
    explain = EXPLANATIONS.get(row["anomaly"], _unexplained)
    sentences = [explain(row, details), _on_replicas(row, replicas), _on_contract(row)]
    if row["at_ns"] is not None and row["anomaly"] not in (MALFORMED, RESOLVED):
        sentences.append(_on_faults(faults, row["at_ns"]))
    return " ".join(sentence for sentence in sentences if sentence)


def faults_near(faults: Sequence[RecordedFault], at_ns: int | None) -> list[tuple[str, RecordedFault]]:
    """Return the faults active at a time, the last one before it and the first one after it, each with this word."""
    if at_ns is None:
        return []
    active = [fault for fault in faults if fault.started_ns <= at_ns and (fault.ended_ns or at_ns) >= at_ns]
    before = [fault for fault in faults if fault.ended_ns is not None and fault.ended_ns < at_ns]
    after = [fault for fault in faults if fault.started_ns > at_ns]
    near = [("active", fault) for fault in active]
    if before:
        near.append(("before", max(before, key=lambda fault: (fault.ended_ns or 0, fault.number))))
    if after:
        near.append(("after", after[0]))
    return near


def _lost_acked_write(row: Row, details: Details) -> str:
    acks = "all" if details.get("acks") == -1 else details.get("acks")
    offset = "an offset that is not known" if row["offset"] is None else f"offset {row['offset']}"
    gone = (
        "yet the final reads of the partition from its start to its agreed end do not show it"
        if details.get("final_complete")
        else "yet polls passed over that offset without returning it"
    )
    read = f" (it had been read {times(details['reads'])} before)" if details.get("reads") else ""
    return (
        f"Value {row['value']} was acknowledged at {offset} of {partition(row)}{by(row['broker'])} "
        f"at {seconds(row['at_ns'])} (acks={acks}), {gone}{read}."
    )


def _lost_read(row: Row, details: Details) -> str:
    return (
        f"Value {row['value']} was returned at offset {row['offset']} of {partition(row)} to process {row['process']} "
        f"at {seconds(row['at_ns'])} (read {times(details.get('reads', 1))} in all), yet the final reads of the "
        "partition from its start to its agreed end do not show it: a record that was once visible to readers is gone."
    )


def _inconsistent_offset(row: Row, details: Details) -> str:
    entries = "; ".join(_entry(entry) for entry in details.get("entries", ()))
    return f"Offset {row['offset']} of {partition(row)} held two values: {entries}."


def _entry(entry: Details) -> str:
    known = []
    if entry.get("acknowledged_offset") is not None:
        when = seconds(entry.get("completed_ns"))
        known.append(f"acknowledged to process {entry.get('process')} at {when}{by(entry.get('node'))}")
    if entry.get("reads"):
        known.append(f"read {times(entry['reads'])}, in the final phase {times(entry.get('final_reads', 0))}")
    return f"value {entry.get('value')} ({', '.join(known) or 'known only from a poll that failed'})"


def _wrong_offset(row: Row, details: Details) -> str:
    polled = " and ".join(str(offset) for offset in details.get("polled_at", ()))
    return (
        f"Value {row['value']} was acknowledged at offset {row['offset']} of {partition(row)}{by(row['broker'])} "
        f"at {seconds(row['at_ns'])}, but readers find it at offset {polled}."
    )


def _duplicate(row: Row, details: Details) -> str:
    offsets = " and ".join(str(offset) for offset in details.get("offsets", ()))
    retry = (
        "The producer was idempotent, so no retry may have this effect."
        if details.get("idempotence")
        else "Without idempotence a retry may write a record twice."
    )
    return f"Value {row['value']}, sent once, is in {partition(row)} at offsets {offsets}. {retry}"


def _phantom_read(row: Row, _details: Details) -> str:
    return (
        f"Process {row['process']} was given value {row['value']} at offset {row['offset']} of {partition(row)}, "
        "and no client ever sent that value to this partition."
    )


def _aborted_read(row: Row, details: Details) -> str:
    send = details.get("operation", {})
    return (
        f"Value {row['value']} was read at offset {row['offset']} of {partition(row)}, although its send by process "
        f"{send.get('process')} at {seconds(send.get('invoked_ns'))} had failed with an error that promises that "
        "nothing was written."
    )


def _reordered(row: Row, details: Details) -> str:
    earlier = details.get("earlier", {})
    return (
        f"Process {earlier.get('process')} had its send acknowledged at offset {earlier.get('offset')} of "
        f"{partition(row)} by {seconds(earlier.get('completed_ns'))}; process {row['process']} began to send value "
        f"{row['value']} after that, at {invoked(details)}, and got the lower offset {row['offset']}."
    )


def _stale_read(row: Row, details: Details) -> str:
    witness = details.get("witness", {})
    server = "a broker" if row["broker"] is None else f"broker {row['broker']}"
    answer = (
        f"asked {server} for the end of {partition(row)} at {invoked(details)} and got {row['offset']} as the answer"
        if details.get("asked") == "latest"
        else f"polled {partition(row)} from {row['offset']} at {invoked(details)} and {server} "
        "answered that there was nothing"
    )
    return (
        f"Process {row['process']} {answer}, although value {witness.get('value')} had been acknowledged at offset "
        f"{witness.get('offset')}{by(witness.get('node'))} at {seconds(witness.get('completed_ns'))}."
    )


def _end_offset_regression(row: Row, details: Details) -> str:
    witness = details.get("witness", {})
    return (
        f"Process {row['process']} asked for the end of {partition(row)} at {invoked(details)}, and the answer"
        f"{by(row['broker'])} was {row['offset']}, although process {witness.get('process')} had got "
        f"{witness.get('offset')}{by(witness.get('node'))} by {seconds(witness.get('completed_ns'))}."
    )


def _nonmonotonic_poll(row: Row, details: Details) -> str:
    if details.get("within_poll"):
        return (
            f"One poll of process {row['process']} returned offset {details.get('to_offset')} of {partition(row)} "
            f"after offset {details.get('from_offset')}."
        )
    return (
        f"Process {row['process']} had reached position {details.get('from_offset')} of {partition(row)} and then "
        f"polled from {details.get('to_offset')}, without seek or assignment."
    )


def _skipped_poll(row: Row, details: Details) -> str:
    return (
        f"Process {row['process']} read offset {details.get('from_offset')} of {partition(row)} and then offset "
        f"{details.get('to_offset')}, passing over {details.get('skipped')} known records in between."
    )


def _divergent_replicas(row: Row, details: Details) -> str:
    differs = [
        name
        for name, key in (("values", "values"), ("leader epochs", "epochs"), ("batches", "crcs"))
        if len(details.get(key, ())) > 1
    ]
    if details.get("holders", 0) < details.get("expected_holders", 0):
        differs.append("presence")
    return (
        f"After the run the replicas' logs of {partition(row)} differ at offset {row['offset']}, below their high "
        f"watermarks, in {' and '.join(differs)}."
    )


def _unseen(row: Row, _details: Details) -> str:
    offset = "an offset that is not known" if row["offset"] is None else f"offset {row['offset']}"
    return (
        f"Value {row['value']} was acknowledged at {offset} of {partition(row)}{by(row['broker'])} at "
        f"{seconds(row['at_ns'])}, and no reader ever came that far: whether it is there is not known."
    )


def _dirty_read(row: Row, details: Details) -> str:
    read = f"Value {row['value']} was read at offset {row['offset']} of {partition(row)} at {seconds(row['at_ns'])}"
    if details.get("sampled_ns") is None:
        return f"{read}; it was never acknowledged, and it is gone: it was read before it was committed."
    return (
        f"{read}{by(row['broker'])}, whose high watermark still was {details.get('sampled_high_watermark')} at "
        f"{seconds(details['sampled_ns'])}, in the same leadership: the record was not committed when it was read."
    )


def _corrupt_record(row: Row, details: Details) -> str:
    if details.get("in_log"):
        return (
            f"The log of broker {row['broker']} holds bytes at offset {row['offset']} of {partition(row)} "
            "that no client sent."
        )
    return (
        f"Process {row['process']} was given bytes at offset {row['offset']} of {partition(row)} at "
        f"{seconds(row['at_ns'])} that are no value with its checksum, so no client sent them."
    )


def _epoch_regression(row: Row, details: Details) -> str:
    where = f"The log of broker {row['broker']}" if details.get("in_log") else f"The answer to poll {row['op']}"
    return (
        f"{where} has leader epoch {details.get('earlier_epoch')} at offset {details.get('earlier_offset')} of "
        f"{partition(row)}, and behind it the lower epoch {details.get('epoch')} at offset {row['offset']}."
    )


def _two_leaders(row: Row, details: Details) -> str:
    epoch = details.get("epoch")
    if details.get("leaders"):
        return f"{_brokers(details['leaders']).capitalize()} both led {partition(row)} in leader epoch {epoch}."
    values = " and ".join(str(value) for value in details.get("values", ()))
    return (
        f"The logs of two replicas hold the values {values} at offset {row['offset']} of {partition(row)}, both "
        f"written in leader epoch {epoch}: two leaders wrote in it."
    )


def _unavailable(row: Row, details: Details) -> str:
    bound_s = (details["bound_ns"] - details["healed_ns"]) / 1e9
    attempts = details.get("attempts")
    what = {
        "no-acknowledged-write": f"no record sent to {partition(row)} was acknowledged ({attempts} were tried)",
        "no-progress-of-readers": (
            f"process {row['process']} got nothing from {partition(row)}, though acknowledged records lay before it "
            f"({attempts} polls)"
        ),
        "isr-not-full": f"no sample of its leader showed all replicas of {partition(row)} in sync ({attempts} samples)",
    }
    return (
        f"The cluster did not recover: within {bound_s:g} s after the last fault was healed at "
        f"{seconds(details['healed_ns'])} {what.get(details.get('what', ''), 'a service was missing')}."
    )


def _malformed_history(_row: Row, details: Details) -> str:
    return f"A row of the table {details.get('table')} is malformed: {details.get('problem')}."


def _resolved(row: Row, details: Details) -> str:
    return (
        f"Process {row['process']} never learnt the outcome of its send of value {row['value']}; it was read at offset "
        f"{row['offset']} of {partition(row)} by operation {details.get('read_op')}, so it was there by "
        f"{seconds(details.get('known_ns'))}."
    )


def _nonlinearizable(row: Row, details: Details) -> str:
    open_then = details.get("concurrent") or ()
    meanwhile = f" Open meanwhile: {'; '.join(open_then)}." if open_then else ""
    return (
        f"No order of the commands to {details.get('key')}, a {details.get('model')} kept in {partition(row)}, "
        f"explains the answers of clients: `{details.get('stuck')}` of process {row['process']} "
        f"at {seconds(row['at_ns'])} fits nowhere. "
        f"The longest legal order ends with the state {details.get('state')}.{meanwhile}"
    )


def _unexplained(row: Row, _details: Details) -> str:
    return f"{row['anomaly']} at offset {row['offset']} of {partition(row)}."


EXPLANATIONS: Mapping[str, Callable[[Row, Details], str]] = {
    "lost-acked-write": _lost_acked_write,
    "lost-read": _lost_read,
    "unseen": _unseen,
    "dirty-read": _dirty_read,
    "corrupt-record": _corrupt_record,
    "epoch-regression": _epoch_regression,
    "two-leaders": _two_leaders,
    "inconsistent-offset": _inconsistent_offset,
    "wrong-offset": _wrong_offset,
    "duplicate": _duplicate,
    "phantom-read": _phantom_read,
    "aborted-read": _aborted_read,
    "reordered-send": _reordered,
    "nonmonotonic-send": _reordered,
    "stale-read": _stale_read,
    "end-offset-regression": _end_offset_regression,
    "nonmonotonic-poll": _nonmonotonic_poll,
    "skipped-poll": _skipped_poll,
    "divergent-replicas": _divergent_replicas,
    **GROUP_EXPLANATIONS,
    "nonlinearizable": _nonlinearizable,
    "unavailable": _unavailable,
    RESOLVED: _resolved,
    MALFORMED: _malformed_history,
}
"""Anomaly → the function that explains it."""


def _on_replicas(row: Row, replicas: Mapping[int, int | None]) -> str:
    if not replicas or row["offset"] is None:
        return ""
    by_value: dict[int | None, list[int]] = {}
    for broker, value in sorted(replicas.items()):
        by_value.setdefault(value, []).append(broker)
    parts = [
        f"{_brokers(brokers)} {'a foreign record' if value is None else f'value {value}'}"
        for value, brokers in by_value.items()
    ]
    return f"At offset {row['offset']} the logs hold after the run: {'; '.join(parts)}."


def _on_contract(row: Row) -> str:
    if row.get("stale_because"):
        age_ms = row["stale_for_ns"] / 1e6
        return f"Within the contract: {row['stale_because']}; the answer was at least {age_ms:.0f} ms old."
    known = CATALOGUE.get(row["anomaly"])
    if row["within_contract"] and known is not None and known.excused_by_loss:
        return "Within the contract: the configuration does not promise that records survive what happened."
    return ""


def _on_faults(faults: Sequence[RecordedFault], at_ns: int) -> str:
    words = {"active": "Active then", "before": "Last fault before", "after": "First fault after"}
    near = faults_near(faults, at_ns)
    if not near:
        return "There were no faults." if not faults else ""
    return " ".join(f"{words[when]}: {_fault(fault)}." for when, fault in near)


def _fault(fault: RecordedFault) -> str:
    until = "never seen healed" if fault.ended_ns is None else f"until {seconds(fault.ended_ns)}"
    missed = "" if fault.took_hold else ", which did not take effect"
    since = seconds(fault.started_ns)
    return f"#{fault.number} {fault.kind} of {_brokers(fault.targets)} from {since} {until}{missed}"


def _brokers(brokers: Sequence[int]) -> str:
    if not brokers:
        return "no node"
    return f"{'broker' if len(brokers) == 1 else 'brokers'} {', '.join(str(broker) for broker in brokers)}"
