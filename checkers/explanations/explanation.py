"""Explains each finding in one to three sentences, for a reader who did not watch the run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from checkers.anomalies.bookkeeping import RESOLVED
from checkers.explanations.sentences import EXPLANATIONS, Details, Row, seconds, unexplained
from checkers.input.run_facts import RecordedFault, RunFacts
from common.wording import enumeration, nodes, plural
from history.anomalies import CATALOGUE, MALFORMED
from history.contract import ACKS_LEADER, ACKS_NONE, shutdowns_survived
from history.processes import number_name
from history.schema import ANOMALIES as ANOMALIES_SCHEMA

OF_AN_ANSWER = ("stale-read", "end-offset-regression")
"""Their offset is where an answer ended, not that of a record which it was about."""
_LOSSY_NAMED = 4
"""So many of the faults are named that may have taken records."""


def explained(row: Row, facts: RunFacts, replicas: Mapping[tuple[Any, ...], dict[int, int | None]]) -> dict[str, Any]:
    """Return the row of the table `anomalies` for a finding: with its explanation and its evidence.

    `replicas`: what the dumped logs hold at positions (`checkers.verdict.collect.held_at`).
    """
    details: dict[str, Any] = json.loads(row["details"])
    held = replicas.get((row["run_id"], row["topic"], row["partition"], row["offset"]), {})
    evidence = {
        **details,
        "replicas": [{"broker": broker, "value": value} for broker, value in sorted(held.items())],
        "faults": [
            {
                "fault": fault.number,
                "kind": fault.kind,
                "targets": list(fault.targets),
                "started_ns": fault.started_ns,
                "ended_ns": fault.ended_ns,
                "when": when,
            }
            for when, fault in faults_near(facts.faults, row["at_ns"])
        ],
    }
    if row.get("stale_because"):
        evidence |= {"stale_because": row["stale_because"], "stale_for_ns": row["stale_for_ns"]}
    return {
        **{name: row.get(name) for name in ANOMALIES_SCHEMA.names},
        "explanation": explanation(row, details, facts, held),
        "evidence": json.dumps(evidence),
    }


def explanation(row: Row, details: Details, facts: RunFacts, replicas: Mapping[int, int | None]) -> str:
    """Say what happened, what the replicas' logs hold there, and which faults were near."""
    explain = EXPLANATIONS.get(row["anomaly"], unexplained)
    sentences = [explain(row, details), _on_replicas(row, replicas), _on_contract(row, details.get("acks"), facts)]
    if row["at_ns"] is not None and row["anomaly"] not in (MALFORMED, RESOLVED):
        sentences.append(_on_faults(facts.faults, row["at_ns"]))
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


def _on_replicas(row: Row, replicas: Mapping[int, int | None]) -> str:
    if not replicas or row["offset"] is None or row["anomaly"] in OF_AN_ANSWER:
        return ""
    by_value: dict[int | None, list[int]] = {}
    for broker, value in sorted(replicas.items()):
        by_value.setdefault(value, []).append(broker)
    parts = [
        f"{nodes(brokers)} {'holds' if len(brokers) == 1 else 'hold'}"
        f" {'a foreign record' if value is None else f'value {number_name(value)}'}"
        for value, brokers in by_value.items()
    ]
    return f"After the run, {'; '.join(parts)} at offset {row['offset']:,}."


def _on_contract(row: Row, acks: object, facts: RunFacts) -> str:
    if row.get("stale_because"):
        age_ms = row["stale_for_ns"] / 1e6
        judged = "Undecided" if row["undecided"] else "Within the contract"
        return f"{judged}: {row['stale_because']}; what it lacks had been known for {age_ms:.0f} ms."
    known = CATALOGUE.get(row["anomaly"])
    if row["within_contract"] and known is not None and known.excused_by_loss:
        return _on_loss(acks, facts)
    return ""


def _on_loss(acks: object, facts: RunFacts) -> str:
    """Say why a loss is within the contract (`history.contract`)."""
    if acks == ACKS_NONE:
        return "Within the contract: acks=0 promises nothing."
    if acks == ACKS_LEADER:
        return "acks=1 allows this: the leader changed, or lost its disk cache, before replication."
    minimum = facts.settings.min_insync_replicas
    survived = shutdowns_survived(minimum)
    limit = f"a record lasts while at most {plural(survived, 'replica')} at once lack"
    if survived == 1:
        limit = "a record lasts while at most one replica at a time lacks"
    elif survived == 0:
        limit = "no record need last once a replica may lack"
    lossy = [f"#{fault.number} {fault.kind}" for fault in facts.faults if fault.lossy and fault.took_hold]
    had = f", as after {enumeration(lossy[:_LOSSY_NAMED])}" + (" and others" if lossy[_LOSSY_NAMED:] else "")
    elected = (
        "; an unclean election, which the settings allow, may also take it" if facts.settings.unclean_election else ""
    )
    return (
        f"Within the contract: with min.insync.replicas={minimum} {limit} what it had written{had if lossy else ''}"
        f"{elected}."
    )


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
    return f"#{fault.number} {fault.kind} of {nodes(fault.targets)} from {since} {until}{missed}"
