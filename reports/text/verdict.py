"""Words the verdict: what was decided and, in one sentence, why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from history.anomalies import CATALOGUE
from reports.data.stored_run import Run
from reports.data.totals import allowed_total, anomaly_totals
from reports.text.wording import count, enumeration, plural

Word = Literal["valid", "invalid", "unknown"]


@dataclass(frozen=True)
class WordedVerdict:
    """What the checkers decided."""

    word: Word
    sentence: str
    reasons: tuple[str, ...]
    """The checkers' own reasons, as they stand in `results.json`."""


def verdict_of(run: Run, acknowledged: int, took_hold: int) -> WordedVerdict:
    """Word the verdict of a run with so many acknowledged writes and so many faults that took effect.

    A run without `results.json`, or with a verdict that is none of the three words, is unknown: reports decide
    nothing themselves.
    """
    stated = run.results.get("reasons")
    reasons = tuple(str(reason) for reason in stated) if isinstance(stated, list) else ()
    word = run.results.get("verdict")
    if word == "valid":
        return WordedVerdict("valid", _valid_sentence(run, acknowledged, took_hold), reasons)
    if word == "invalid":
        return WordedVerdict("invalid", _invalid_sentence(run, reasons), reasons)
    if word == "unknown":
        why = reasons[0] if reasons else "the checkers gave no reason"
        return WordedVerdict("unknown", f"Whether a promise was broken could not be decided: {why}", reasons)
    return WordedVerdict("unknown", "This run has not been checked: there is no verdict in results.json.", reasons)


def _valid_sentence(run: Run, acknowledged: int, took_hold: int) -> str:
    faults = f"{plural(took_hold, 'fault')} that took effect" if took_hold else "a run without faults"
    allowed = allowed_total(anomaly_totals(run))
    sentence = f"No promise was broken: {plural(acknowledged, 'acknowledged write')}, {faults}, no violation"
    if not allowed:
        return f"{sentence}."
    sentence = f"{sentence}, {plural(allowed, 'anomaly', 'anomalies')} within the contract."
    if run.flag("volatile"):
        sentence += f" {run.text('system')} keeps its records in memory alone: what ends a node's process ends them."
    return sentence


def _invalid_sentence(run: Run, reasons: tuple[str, ...]) -> str:
    broken = [total for total in anomaly_totals(run) if total.violations]
    if not broken:
        return reasons[0] if reasons else "The checkers found a violation and did not record which."
    kinds = enumeration([f"{_breach(total.name)} ({count(total.violations)})" for total in broken])
    return f"{'A promise was' if len(broken) == 1 else 'Promises were'} broken: {kinds}."


def _breach(name: str) -> str:
    known = CATALOGUE.get(name)
    return known.breach if known is not None and known.breach else name
