"""Answers what readers ask first of the gravest incident: what was promised, which fault it needed, whose mistake."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from common.wording import FIRST_SERVER, capital, count, enumeration, partition_name, plural
from history.anomalies import CATALOGUE, MALFORMED
from history.contract import ACKS_LEADER, ACKS_NONE
from history.processes import number_name
from history.protocol import version_in_words
from incidents import Incident
from incidents.doubled import NOT_IDEMPOTENT
from incidents.evidence import Evidence
from incidents.headlines import gravest
from incidents.logs_apart import UNCONDITIONAL
from incidents.lost_storage import KNOWN_GAP, SWITCHED_OFF, UNLESS_ELR
from incidents.model import SPANS_NAMED_MAX, where
from incidents.needed import Needed
from incidents.rows import details_of
from reports.data.stored_run import Run, is_one_of, rows_where
from reports.text.anomaly_groups import section_of
from reports.text.answer import Answer
from reports.text.fault_answers import about_faults
from reports.text.incidents import promise_to

RECORDS_NAMED = 3
_ON_THE_WAY_NS = 1_000_000_000
"""How long after a broker has given it an answer may come to its client."""

_ROWS_READ = 100
"""Anomalies of a partition among which those records are looked for."""


def answers(run: Run) -> tuple[Answer, ...]:
    """Answer for the first violation, else for the first incident within the contract; nothing if there is neither."""
    incident = next((one for one in run.incidents if not one.within_contract), None)
    incident = incident or next(iter(run.incidents), None)
    if incident is None:
        return ()
    evidence = Evidence(run.directory)
    name = gravest(incident.anomalies)
    promise = promise_to(incident)
    bound_ms = run.number("unavailable_after_ms")
    if bound_ms is not None and name == "unavailable":
        promise += f" Here that is within {bound_ms / 1000:g} s."
    if incident.within_contract and {cause.kind for cause in incident.causes} != {NOT_IDEMPOTENT}:
        promise += (
            " The contract, which is what this cluster's documents and settings promise, makes an exception here."
        )
    promised = [Answer("The rule" if incident.within_contract else "Promised", promise)] if promise else []
    return (
        *promised,
        *_harm(run, incident),
        *about_faults(run, incident, evidence),
        Answer("Whose mistake", _whose_mistake(run, incident, evidence.needed)),
        _with_notation(_with_first(_records(run, incident), incident, evidence)),
    )


def _harm(run: Run, incident: Incident) -> list[Answer]:
    """Say what no client saw, if only the simulator's own checks found something."""
    broken = {name for one in run.incidents for name, (violations, _) in one.anomalies.items() if violations}
    if incident.within_contract or not incident.findings or broken & CATALOGUE.keys():
        return []
    acks = run.number("acks")
    weak = acks in (ACKS_NONE, ACKS_LEADER)
    promised = f"against what acks={acks} promises" if weak else "that it was promised"
    text = (
        f"No client lost a record {promised}, or got a wrong answer, in this run: the check looks inside the"
        " cluster, after every step, and finds a broken rule whether or not it has cost that. Writes that failed"
        " meanwhile are no harm in this sense."
    )
    return [Answer("Harm", text)]


# --- the mistake -----------------------------------------------------------------------------------------------------


def _whose_mistake(run: Run, incident: Incident, needed: Needed | None) -> str:
    kinds = {cause.kind for cause in incident.causes}
    allowed_by = incident.causes[0].allowed_by if incident.causes else ""
    if kinds == {"sent-again"}:
        return f"The client's: its library sent the records again in a later epoch of its producer. {allowed_by}"
    if set(incident.anomalies) == {MALFORMED}:
        return "The test's own: its history is malformed, which says nothing about the cluster."
    if incident.within_contract:
        acks = run.number("acks")
        weak = acks in (ACKS_NONE, ACKS_LEADER) or kinds == {NOT_IDEMPOTENT}
        whose = "The configuration's" if weak else "Nobody's"
        return f"{whose}: what happened is within the contract. {allowed_by}".rstrip()
    flaws = [str(flaw) for flaw in run.settings.get("flaws") or ()]
    if flaws:
        return _of_flaws(flaws, needed, allowed_by)
    if incident.findings and allowed_by:
        return f"The protocol's, not this implementation's. {allowed_by} No flaw is planted."
    if allowed_by.endswith(UNLESS_ELR):
        return f"The protocol's, or else the broker software's; not the clients'. {allowed_by}"
    if KNOWN_GAP in allowed_by:
        if SWITCHED_OFF in allowed_by:
            whose = (
                "No mistake of this implementation: it is a gap of the protocol, which the configuration leaves open."
            )
            return f"{whose} {allowed_by}"
        may = any(UNCONDITIONAL in cause.evidence for cause in incident.causes)
        return f"{'Most likely the' if may else 'The'} protocol's, not this implementation's. {allowed_by}"
    if kinds == {"node-crash"} and all((cause.node or 0) >= FIRST_SERVER for cause in incident.causes):
        return (
            "ZooKeeper's: the node that ended is one of its servers, in which these brokers keep their metadata."
            " Nothing that brokers, configuration or clients did excuses it, or is to blame for it."
        )
    generation = run.settings.get("generation")
    own = run.settings.get("system") == "harrow" and generation
    which = ""
    if own:
        version = version_in_words(str(generation))
        which = f" It is Harrow's own broker, by the protocol version {version}, with no flaw planted."
    return (
        f"The broker software's: neither its configuration nor anything that the clients did excuses it.{which}"
        f" {allowed_by}".rstrip()
    )


def _of_flaws(flaws: Sequence[str], needed: Needed | None, allowed_by: str) -> str:
    one = len(flaws) == 1
    named = f"the planted {'flaw' if one else 'flaws'} {enumeration(list(flaws))}"
    without = None if needed is None else needed.without_flaws
    if without is None and KNOWN_GAP in allowed_by:
        return (
            f"The protocol's, which is enough to explain it. {allowed_by} Whether {named} had a part in it, too, was"
            " not tried."
        )
    if without is None:
        return (
            f"The broker software's, most likely by {named}: neither the configuration nor anything that the clients"
            " did excuses it. Whether it happens without the flaw was not tried."
        )
    if without and allowed_by:
        return (
            f"The protocol's, not this implementation's. {allowed_by} It is not that of {named} either: the same"
            f" simulation fails without {'it' if one else 'them'}, too."
        )
    if without:
        return f"The broker software's own: the same simulation fails without {named}, too."
    tries = "with the same random choices and with others"
    return (
        f"That of {named}, in a test of Harrow's own broker: the same simulation without {'it' if one else 'them'} has"
        f" no failure ({tries})."
    )


_OF_WORKER = re.compile(r"\bvalue \d+:\d+")


def _with_notation(answer: Answer) -> Answer:
    """Say what a value with a colon is, where an answer names one."""
    if _OF_WORKER.search(answer.text) is None:
        return answer
    return replace(answer, text=f"{answer.text} A value w:n is number n of client worker w.")


# --- the records -----------------------------------------------------------------------------------------------------


def _records(run: Run, incident: Incident) -> Answer:
    name = gravest(incident.anomalies)
    violations, within = incident.anomalies[name]
    total = violations or within
    table = _own(run, incident, name)
    rows = list(_by_offset(table, incident))
    section = section_of(name, within_contract=not violations)
    if name == "stale-read" and rows:
        return Answer("Records", _missed(rows, total, at_least=name in incident.at_least), section, "more")
    if rows and name in CATALOGUE and not CATALOGUE[name].about_record and rows[0]["op"] is not None:
        return Answer("Records", _answered(rows[0], total, at_least=name in incident.at_least), section, "more")
    said = (_record(run, row) for row in rows if row["offset"] is not None or row["value"])
    named = list(islice(dict.fromkeys(said), RECORDS_NAMED))  # several reads may have missed the same record
    if not named:
        first = ", where the check saw it first" if incident.findings and incident.spans else ""
        return Answer("Records", f"No single one: this is about {where(incident.spans)}{first}.")
    least = "at least " if name in incident.at_least else ""
    many = f"{least}{plural(total, 'violation')}" if violations and within else f"{least}{count(total)} in all"
    of_run = sum(run.stated_totals.get(name, (0, 0)))
    if least and of_run > total:
        many = f"at least {count(total)} of the run's {count(of_run)}, which the table does not list one by one"
    elif not least:
        many += _in_partitions(run, incident, name, table, total)
    first = f"{many}; among them: " if total > len(named) or least else ""
    if name not in CATALOGUE and any(span.length > 1 for span in incident.spans):  # one finding about several
        first = f"The records of {where(incident.spans)}; the first: "
    listed = name in CATALOGUE or rows
    text = f"{first}{'; '.join(named)}."
    more = "more of them" if first and (total > len(named) or least) else "more"
    return Answer("Records", capital(text), section if listed else "", more)


def _with_first(answer: Answer, incident: Incident, evidence: Evidence) -> Answer:
    """Say which record the first violation is about, where the harm came later, to others."""
    first = evidence.findings[0] if incident.findings and evidence.findings else None
    if first is None or incident.found_first == gravest(incident.anomalies) or first.offset is None:
        return answer
    place = f"{partition_name(first.topic, first.partition)} offset {count(first.offset)}"
    if place in answer.text:
        return answer
    return replace(answer, text=f"{answer.text} The first violation is about {place}.")


def _own(run: Run, incident: Incident, name: str) -> pa.Table:
    """Those rows of the table of anomalies that are an incident's and have this name."""
    table = rows_where(run.tables["anomalies"], anomaly=name)
    table = table.filter(pa.array(is_one_of(table, "within_contract", incident.within_contract)))
    if incident.rows:
        number = run.incidents.index(incident) + 1
        is_own = [run.incident_of_place.get(place) == number for place in table.column("place").to_pylist()]
        table = table.filter(pa.array(is_own, pa.bool_()))
    return table


def _in_partitions(run: Run, incident: Incident, name: str, table: pa.Table, total: int) -> str:
    """Say how many each partition has, where there are several, and not too many to name."""
    extents = run.stated_extents.get(name, ()) if table.num_rows < total else ()
    side = incident.within_contract
    numbers = {(one.topic, one.partition): one.number for one in extents if one.within_contract == side}
    if table.num_rows == total:
        keys = zip(table.column("topic").to_pylist(), table.column("partition").to_pylist(), strict=True)
        numbers = dict(Counter(keys))
    places = [(span.topic, span.partition) for span in incident.spans]
    if not 1 < len(places) <= SPANS_NAMED_MAX or numbers.keys() != set(places) or sum(numbers.values()) != total:
        return ""
    return f" ({', '.join(f'{count(numbers[place])} of {partition_name(*place)}' for place in places)})"


def _by_offset(table: pa.Table, incident: Incident) -> Iterator[Mapping[str, Any]]:
    """Yield the first anomalies of each of the incident's partitions, by offset."""
    for span in incident.spans or ():
        mine = rows_where(table, topic=span.topic, partition=span.partition)
        if span.first_offset is not None:
            mine = mine.filter(pc.fill_null(pc.greater_equal(mine.column("offset"), span.first_offset), True))
        yield from mine.sort_by([("offset", "ascending")]).slice(0, _ROWS_READ).to_pylist()


def _missed(rows: Sequence[Mapping[str, Any]], total: int, *, at_least: bool) -> str:
    """Say what stale reads did not return, and who answered them: one record may have been missed by all."""
    first = rows[0]
    witness = details_of(first).get("witness")
    at = witness.get("offset") if isinstance(witness, dict) else None
    where = f" of {partition_name(first['topic'], first['partition'])}"
    value = "a record" if first["value"] is None else f"value {number_name(first['value'])}"
    record = f"{value} at offset {count(at)}{where}" if isinstance(at, int) else f"{value}{where}"
    least = "at least " if at_least else ""
    by = {row["broker"] for row in rows}
    server = f", answered by broker {first['broker']}," if len(by) == 1 and first["broker"] is not None else ""
    end = details_of(first).get("answered_end")
    if total == 1 and details_of(first).get("asked") == "latest" and isinstance(end, int) and isinstance(at, int):
        missed = f"offsets {count(end)} to {count(at)} were" if at > end else f"offset {count(at)} was"
        return f"The end{where}{server} was said to be {count(end)}: {missed} missed, the last of them with {value}."
    if len({(row["topic"], row["partition"], row["value"]) for row in rows}) == 1:
        return f"{capital(least)}{plural(total, 'read')}{server} did not return {record}."
    ended = f": its answer ended at offset {count(end)}" if isinstance(end, int) else ""
    return f"{capital(least)}{plural(total, 'read')}{server} missed records; the first did not return {record}{ended}."


def _answered(first: Mapping[str, Any], total: int, *, at_least: bool) -> str:
    """Say what an anomaly of answers, or of groups, is about: what the checkers say of the first one, in a sentence."""
    sentence = (first["explanation"] or "The checker gave no explanation.").split(". ")[0].rstrip(".")
    least = "at least " if at_least else ""
    return f"{sentence}." if total == 1 else f"No single one: {least}{count(total)} answers. The first: {sentence}."


def _record(run: Run, row: Mapping[str, Any]) -> str:
    place = partition_name(row["topic"], row["partition"])
    offset = "" if row["offset"] is None else f" offset {count(row['offset'])}"
    values = [row["value"]] if row["value"] is not None else _values_at(run, row)
    if row["anomaly"] not in CATALOGUE:
        values = values[-1:]  # the simulator speaks of the record that is there by then
    if not values and not offset:
        return f"No single one; it is about {place}"
    if not values:
        return f"{place}{offset} (no client had been told what stood there)"
    writes = " and later ".join(f"the write of value {number_name(value)}" for value in values)
    return f"{writes} to {place}{offset}" if offset else f"{writes} to {place}"


def _values_at(run: Run, row: Mapping[str, Any]) -> list[int]:
    """Find what was acknowledged or read at the offset of an anomaly that is about no value, in order of operations.

    Not by operations that ended well after it: another record may have come to the offset since.
    """
    found: list[tuple[int, int]] = []
    for name in ("sends", "reads"):
        table = rows_where(run.tables[name], topic=row["topic"], partition=row["partition"], offset=row["offset"])
        columns = (table.column(name).to_pylist() for name in ("op", "value"))
        known = [(op, value) for op, value in zip(*columns, strict=True) if op is not None and value is not None]
        later = _ended_later(run, [op for op, _ in known], row["at_ns"])
        found += sorted((op, value) for op, value in known if op not in later)
    return list(dict.fromkeys(value for _, value in found))[:RECORDS_NAMED]


def _ended_later(run: Run, operations: Sequence[int], at_ns: int | None) -> set[int]:
    """Which of some operations ended well after a moment; none if there is no moment."""
    if at_ns is None:
        return set()
    table = run.tables["operations"]
    asked = table.filter(pa.array(is_one_of(table, "op", *operations)))
    ended = zip(asked.column("op").to_pylist(), asked.column("completed_ns").to_pylist(), strict=True)
    return {op for op, at in ended if at is not None and at > at_ns + _ON_THE_WAY_NS}
