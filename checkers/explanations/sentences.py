"""Says what happened, one function for each anomaly: one or two sentences from a finding and its details."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from checkers.anomalies.bookkeeping import RESOLVED
from common.wording import capital, nodes
from history.anomalies import MALFORMED, NODE_LOST
from history.processes import number_name, process_name

Details = Mapping[str, Any]
Row = Mapping[str, Any]


def partition(row: Row) -> str:
    """Name the partition of a finding."""
    return f"{row['topic']}-{row['partition']}"


def seconds(ns: int | None) -> str:
    """Format a time of the run."""
    return "an unknown time" if ns is None else f"{ns / 1e9:.3f} s"


def by(broker: int | None) -> str:
    """Name the broker that did it, if known."""
    return "" if broker is None else f" by broker {broker}"


def invoked(details: Details) -> str:
    """Say when the operation of a finding began."""
    return seconds(details.get("operation", {}).get("invoked_ns"))


def times(number: int) -> str:
    """Format how often something happened."""
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number} times")


def _process(what: Mapping[str, Any]) -> str:
    """Name the process of a finding, or of an operation in its details."""
    return process_name(what.get("process"))


def _subject(what: Mapping[str, Any]) -> str:
    """Name it at the beginning of a sentence."""
    return capital(_process(what))


def _lost_commit(row: Row, details: Details) -> str:
    last = details.get("last_acknowledged", {})
    asked = "" if row["broker"] is None else f" broker {row['broker']}"
    return (
        f"{_subject(row)} asked{asked} at {invoked(details)} for the committed offset of "
        f"{_whose(details)} and got {_offset(details)}, although {_process(last)} had its commit of "
        f"{last.get('offset')} acknowledged{by(last.get('node'))} at {seconds(last.get('completed_ns'))}, and no "
        "commit that may have come after that explains the answer."
    )


def _committed_offset_regression(row: Row, details: Details) -> str:
    earlier = details.get("earlier", {})
    since = seconds(earlier.get("completed_ns"))
    if details.get("generation") is not None:
        return (
            f"{_subject(row)}, a member of generation {details['generation']}, had its commit of "
            f"{_offset(details)} for {_whose(details)} acknowledged{by(row['broker'])} at {seconds(row['at_ns'])}, "
            f"although generation {earlier.get('generation')} had begun and had {earlier.get('offset')} acknowledged "
            f"at {since}: the coordinator had to refuse it."
        )
    return (
        f"The committed offset of {_whose(details)} was {earlier.get('offset')} by {since}, as "
        f"{_process(earlier)} was answered{by(earlier.get('node'))}; {_process(row)} asked after that, "
        f"at {invoked(details)}, and got {_offset(details)}{by(row['broker'])}. No commit in between can "
        "have set that."
    )


def _double_ownership(row: Row, details: Details) -> str:
    earlier = details.get("earlier", {})
    return (
        f"In generation {details.get('generation')} two members owned {_whose(details)} at once: "
        f"{earlier.get('member')} until {seconds(earlier.get('until_ns'))}, and {details.get('member')} from "
        f"{seconds(row['at_ns'])} on."
    )


def _whose(details: Details) -> str:
    return f"group {details.get('group')} for {details.get('of_topic')}-{details.get('of_partition')}"


def _offset(details: Details) -> str:
    offset = details.get("offset")
    return "no offset" if offset is None or offset < 0 else str(offset)


GROUP_EXPLANATIONS: Mapping[str, Callable[[Row, Details], str]] = {
    "lost-commit": _lost_commit,
    "committed-offset-regression": _committed_offset_regression,
    "double-ownership": _double_ownership,
}


def _node_lost(row: Row, details: Details) -> str:
    fault, excuse, words = details.get("fault"), details.get("excuse"), details.get("last_words")
    since = f"after fault #{fault['fault']} {fault['kind']}" if fault else "although no fault had hit it"
    said = f"its last words: {words}" if words else "its log is empty"
    excused = ""
    if excuse:
        excused = f" Within the contract: after #{excuse['fault']} {excuse['kind']} a node need not come back."
    return (
        f"Node {row['broker']} ended by itself with status {details.get('exit_status')}, seen at "
        f"{seconds(row['at_ns'])}, {since}, and did not come back; {said}.{excused}"
    )


def _value(row: Row) -> str:
    return f"Value {number_name(row['value'])}"


def _lost_acked_write(row: Row, details: Details) -> str:
    acks = "all" if details.get("acks") == -1 else details.get("acks")
    offset = "an offset that is not known" if row["offset"] is None else f"offset {row['offset']}"
    gone = (
        "yet it is missing from a complete read of the partition"
        if details.get("final_complete")
        else "yet polls passed over that offset without returning it"
    )
    read = f" (it had been read {times(details['reads'])} before)" if details.get("reads") else ""
    return (
        f"{_value(row)} was acknowledged at {offset} of {partition(row)}{by(row['broker'])} "
        f"at {seconds(row['at_ns'])} (acks={acks}), {gone}{read}."
    )


def _lost_read(row: Row, details: Details) -> str:
    complete = details.get("final_complete", True)
    missing = "it is missing from a complete read of the partition" if complete else "the last reads passed over it"
    told = details.get("told_high_watermark")
    watermark = "" if told is None else f", in an answer with the high watermark {told}"
    return (
        f"{_value(row)} was returned at offset {row['offset']} of {partition(row)} to {_process(row)} "
        f"at {seconds(row['at_ns'])}{watermark} (read {times(details.get('reads', 1))} in all), yet {missing}: a record"
        " that was once visible to readers is gone."
    )


def _inconsistent_offset(row: Row, details: Details) -> str:
    entries = "; ".join(_entry(entry) for entry in details.get("entries", ()))
    return f"Offset {row['offset']} of {partition(row)} held two values: {entries}."


def _entry(entry: Details) -> str:
    known = []
    if entry.get("acknowledged_offset") is not None:
        when = seconds(entry.get("completed_ns"))
        known.append(f"acknowledged to {_process(entry)} at {when}{by(entry.get('node'))}")
    if entry.get("reads"):
        known.append(f"read {times(entry['reads'])}, in the final phase {times(entry.get('final_reads', 0))}")
    return f"value {number_name(entry.get('value'))} ({', '.join(known) or 'known only from a poll that failed'})"


def _wrong_offset(row: Row, details: Details) -> str:
    polled = " and ".join(str(offset) for offset in details.get("polled_at", ()))
    return (
        f"{_value(row)} was acknowledged at offset {row['offset']} of {partition(row)}{by(row['broker'])} "
        f"at {seconds(row['at_ns'])}, but readers find it at offset {polled}. {_on_resending(details)}"
    ).rstrip()


def _on_resending(details: Details) -> str:
    resent = details.get("resent")
    if not resent:
        return ""
    epochs = " and ".join(str(epoch) for epoch in resent.get("producer_epochs", ()))
    return (
        f"Within the contract: the client sent it again, for in the logs producer {resent.get('producer_id')} wrote "
        f"the copies in its epochs {epochs}, and a broker recognizes a retry only within one epoch."
    )


def _duplicate(row: Row, details: Details) -> str:
    offsets = " and ".join(str(offset) for offset in details.get("offsets", ()))
    retry = _on_resending(details) or (
        "The producer was idempotent, so no retry may have this effect."
        if details.get("idempotence")
        else "Without idempotence a retry may write a record twice."
    )
    return f"{_value(row)}, which a client was given once to send, is in {partition(row)} at offsets {offsets}. {retry}"


def _phantom_read(row: Row, _details: Details) -> str:
    return (
        f"{_subject(row)} was given {_value(row).lower()} at offset {row['offset']} of {partition(row)}, "
        "and no client ever sent that value to this partition."
    )


def _aborted_read(row: Row, details: Details) -> str:
    send = details.get("operation", {})
    return (
        f"{_value(row)} was read at offset {row['offset']} of {partition(row)}, although its send by "
        f"{_process(send)} at {seconds(send.get('invoked_ns'))} had failed with an error that promises that "
        "nothing was written."
    )


def _reordered(row: Row, details: Details) -> str:
    earlier = details.get("earlier", {})
    known = "had its send acknowledged" if earlier.get("status") == "ok" else "had sent a value that was read"
    return (
        f"{_subject(earlier)} {known} at offset {earlier.get('offset')} of "
        f"{partition(row)} by {seconds(earlier.get('completed_ns'))}; {_process(row)} began to send "
        f"{_value(row).lower()} after that, at {invoked(details)}, and got the lower offset {row['offset']}."
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
    known = "read" if witness.get("status") == "info" else "acknowledged"
    return (
        f"{_subject(row)} {answer}, although value {number_name(witness.get('value'))} had been {known} at offset "
        f"{witness.get('offset')}{by(witness.get('node'))} at {seconds(witness.get('completed_ns'))}."
    )


def _end_offset_regression(row: Row, details: Details) -> str:
    witness = details.get("witness", {})
    polled = details.get("asked") == "poll"
    asked = f"polled {partition(row)}" if polled else f"asked for the end of {partition(row)}"
    was = "told the high watermark" if polled else "was"
    return (
        f"{_subject(row)} {asked} at {invoked(details)}, and the answer"
        f"{by(row['broker'])} {was} {row['offset']}, although {_process(witness)} had got "
        f"{witness.get('offset')}{by(witness.get('node'))} by {seconds(witness.get('completed_ns'))}."
    )


def _nonmonotonic_poll(row: Row, details: Details) -> str:
    if details.get("within_poll"):
        return (
            f"One poll of {_process(row)} returned offset {details.get('to_offset')} of {partition(row)} "
            f"after offset {details.get('from_offset')}."
        )
    return (
        f"{_subject(row)} had reached position {details.get('from_offset')} of {partition(row)} and then "
        f"polled from {details.get('to_offset')}, without seek or assignment."
    )


def _skipped_poll(row: Row, details: Details) -> str:
    return (
        f"{_subject(row)} read offset {details.get('from_offset')} of {partition(row)} and then offset "
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
        f"{_value(row)} was acknowledged at {offset} of {partition(row)}{by(row['broker'])} at "
        f"{seconds(row['at_ns'])}, and no reader ever came that far: whether it is there is not known."
    )


def _dirty_read(row: Row, details: Details) -> str:
    read = f"{_value(row)} was read at offset {row['offset']} of {partition(row)} at {seconds(row['at_ns'])}"
    if details.get("sampled_ns") is None:
        why = "it was read before it was committed, or lost afterwards"
        return f"{read}; it was never acknowledged, and it is gone: {why}."
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
        f"{_subject(row)} was given bytes at offset {row['offset']} of {partition(row)} at "
        f"{seconds(row['at_ns'])} that are no value with its checksum, so no client sent them."
    )


def _epoch_regression(row: Row, details: Details) -> str:
    where = (
        f"The log of broker {row['broker']}"
        if details.get("in_log")
        else f"The answer to poll {number_name(row['op'])}"
    )
    return (
        f"{where} has leader epoch {details.get('earlier_epoch')} at offset {details.get('earlier_offset')} of "
        f"{partition(row)}, and behind it the lower epoch {details.get('epoch')} at offset {row['offset']}."
    )


def _two_leaders(row: Row, details: Details) -> str:
    epoch = details.get("epoch")
    if details.get("leaders"):
        return f"{capital(nodes(details['leaders']))} both led {partition(row)} in leader epoch {epoch}."
    values = " and ".join(number_name(value) for value in details.get("values", ()))
    return (
        f"The logs of two replicas hold the values {values} at offset {row['offset']} of {partition(row)}, both "
        f"written in leader epoch {epoch}: two leaders wrote in it, or one that had lost its log."
    )


def _unavailable(row: Row, details: Details) -> str:
    bound_s = (details["bound_ns"] - details["healed_ns"]) / 1e9
    attempts = details.get("attempts")
    what = {
        "no-acknowledged-write": f"no record sent to {partition(row)} was acknowledged ({attempts} were tried)",
        "no-progress-of-readers": (
            f"{_process(row)} got nothing from {partition(row)}, though acknowledged records lay before it "
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
        f"{_subject(row)} never learnt the outcome of its send of {_value(row).lower()}; it was read at offset "
        f"{row['offset']} of {partition(row)} by operation {number_name(details.get('read_op'))}, so it was there by "
        f"{seconds(details.get('known_ns'))}."
    )


def _nonlinearizable(row: Row, details: Details) -> str:
    open_then = details.get("concurrent") or ()
    meanwhile = f" Open meanwhile: {'; '.join(open_then)}." if open_then else ""
    return (
        f"No order of the commands to {details.get('key')}, a {details.get('model')} kept in {partition(row)}, "
        f"explains the answers of clients: no valid order contains `{details.get('stuck')}` of "
        f"{_process(row)} at {seconds(row['at_ns'])}. "
        f"The longest legal order ends with the state {details.get('state')}.{meanwhile}"
    )


def unexplained(row: Row, _details: Details) -> str:
    """Say where an anomaly was found that has no explanation of its own."""
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
    NODE_LOST: _node_lost,
    "unavailable": _unavailable,
    RESOLVED: _resolved,
    MALFORMED: _malformed_history,
}
"""Anomaly → the function that explains it."""
