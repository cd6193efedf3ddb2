"""Words the verdict of a run: what went wrong and why, or what was allowed to go wrong, numbers first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from common.wording import enumeration, plural
from history.anomalies import CATALOGUE
from history.contract import ACKS_LEADER, ACKS_NONE
from incidents import Incident, needed
from incidents.headlines import gravest
from reports.data.stored_run import Run
from reports.text.totals import AnomalyTotal, allowed_total

Word = Literal["valid", "invalid", "unknown"]
LOST = "lost-acked-write"
_MEANINGS: Final[Mapping[Word, str]] = {
    "valid": "the tested system kept its promises",
    "invalid": "the tested system broke a promise",
    "unknown": "it is not decided whether the tested system kept its promises",
}


@dataclass(frozen=True)
class WordedVerdict:
    """What the checkers decided."""

    word: Word
    sentence: str
    planted: str
    """What is to be said of planted flaws; empty without any."""
    reasons: tuple[str, ...]
    """The checkers' own reasons in `results.json`, without those that the incidents give."""

    @property
    def other_reasons(self) -> tuple[str, ...]:
        """Those of the checkers' reasons that the sentence does not give."""
        return tuple(reason for reason in self.reasons if not self.sentence.endswith(reason))

    @property
    def meaning(self) -> str:
        """What the word says, for those who see it for the first time."""
        return _MEANINGS[self.word]


def verdict_of(run: Run, totals: Sequence[AnomalyTotal], acknowledged: int, took_hold: int) -> WordedVerdict:
    """Word the verdict of a run with so many acknowledged writes and so many faults that took effect.

    A run without `results.json`, or with a verdict that is none of the three words, is unknown: reports decide
    nothing themselves.
    """
    stated = run.results.get("reasons")
    reasons = tuple(str(reason) for reason in stated) if isinstance(stated, list) else ()
    if run.incidents:  # which say the same, and more
        reasons = tuple(reason for reason in reasons if not _is_said(reason, totals, run.incidents))
    word = run.results.get("verdict")
    if word == "valid":
        sentence = _valid_sentence(run, totals, acknowledged, took_hold)
        return WordedVerdict("valid", sentence, _planted(run, word), reasons)
    if word == "invalid":
        return WordedVerdict("invalid", _invalid_sentence(run, totals, reasons), _planted(run, word), reasons)
    if word == "unknown":
        why = reasons[0] if reasons else "the checkers gave no reason"
        return WordedVerdict("unknown", f"Not decided: {why}", _planted(run, word), reasons)
    return WordedVerdict("unknown", "This run has not been checked: there is no verdict in results.json.", "", reasons)


def _is_said(reason: str, totals: Sequence[AnomalyTotal], incidents: Sequence[Incident]) -> bool:
    """Whether a reason only counts an anomaly, or repeats a finding of the simulator that is in an incident."""
    head, _, rest = reason.partition(": ")
    only_counts = rest.endswith((" violation", " violations"))  # else it says what is not decided
    counted = only_counts and any(total.name == head for total in totals)
    return counted or any(rest in incident.findings for incident in incidents)


def _planted(run: Run, word: str) -> str:
    """Say whether planted flaws showed; that a run is invalid does not prove that it was they."""
    flaws = [str(flaw) for flaw in run.settings.get("flaws") or ()]
    if not flaws:
        return ""
    one = len(flaws) == 1
    if word == "invalid":
        summaries = run.spec.get("flaw_summaries")
        known = summaries if isinstance(summaries, Mapping) else {}
        what = "; ".join(str(known[flaw]) for flaw in flaws if flaw in known)
        named = f"a bug planted on purpose, {flaws[0]}" if one else f"bugs planted on purpose, {enumeration(flaws)}"
        tried = needed.read(run.directory)
        without = tried is not None and tried.without_flaws
        too = f" The same simulation fails without {'it' if one else 'them'}, too." if without else ""
        return f"This build of Harrow's own broker has {named}{f': {what}' if what else ''}.{too}"
    named = f"The planted {'flaw' if one else 'flaws'} {enumeration(flaws)}"
    return f"{named} did not show: nothing in this run triggered {'it' if one else 'them'}."


def _valid_sentence(run: Run, totals: Sequence[AnomalyTotal], acknowledged: int, took_hold: int) -> str:
    faults = plural(took_hold, "fault") if took_hold else "no faults"
    done = f"{plural(acknowledged, 'acknowledged write')}, {faults}"
    allowed = allowed_total(totals)
    volatile = (
        f" {run.text('system')} keeps its records in memory alone: what ends a node's process ends them."
        if run.flag("volatile") and allowed
        else ""
    )
    incident = next((one for one in run.incidents if one.within_contract and one.causes), None)
    if not allowed:
        return f"No violations in {done}."
    lost = sum(total.within_contract for total in totals if total.name == LOST)
    acks = run.number("acks")
    if lost and acks in (ACKS_NONE, ACKS_LEADER):
        several = sum(LOST in one.anomalies for one in run.incidents)
        largest = f", in {several} incidents; the largest" if several > 1 else ""
        why = f"{largest}: {_why(incident)}" if incident is not None else ""
        gone = plural(lost, "acknowledged write")
        return f"Valid under acks={acks}: {gone} lost, as acks={acks} permits{why}.{volatile}"
    why = f" {incident.headline}" if incident is not None else ""
    return f"No violations in {done}; {plural(allowed, 'anomaly', 'anomalies')} within the contract.{why}{volatile}"


def _why(incident: Incident) -> str:
    return "; or ".join(cause.sentence for cause in incident.causes)


def _invalid_sentence(run: Run, totals: Sequence[AnomalyTotal], reasons: tuple[str, ...]) -> str:
    violating = [incident for incident in run.incidents if not incident.within_contract]
    if violating:
        allowed = [incident for incident in run.incidents if incident.within_contract]
        return f"{violating[0].headline}{_others(violating[1:])}{_others(allowed, ' within the contract')}"
    broken = [total for total in totals if total.violations]
    if not broken:
        return reasons[0] if reasons else "The checkers found a violation and did not record which."
    return f"{enumeration([f'{total.violations:,} {_breach(total.name)}' for total in broken])}.".capitalize()


def _others(incidents: Sequence[Incident], which: str = "") -> str:
    """Say how many more there are, and of which kinds."""
    if not incidents:
        return ""
    kinds = list(dict.fromkeys(_breach(gravest(incident.anomalies)) for incident in incidents))
    return f" {plural(len(incidents), 'more incident')}{which}: {enumeration(kinds)}."


def _breach(name: str) -> str:
    known = CATALOGUE.get(name)
    return known.breach if known is not None and known.breach else name
