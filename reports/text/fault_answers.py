"""Answers which faults stand behind a failure: by leaving them out of a simulation, or by the evidence of a run."""

from __future__ import annotations

from collections.abc import Sequence

from common.wording import capital, count, plural
from incidents import Cause, Incident
from incidents.deeds import ANOTHER_HAD_TO_LEAD
from incidents.evidence import Evidence
from incidents.faults import Fault
from incidents.left_isr import HAD_LEFT_THE_ISR
from incidents.losses import CUT_AS_IT_WENT_ON, MAY_NOT_HAVE_GOT, NOT_FETCHED_AGAIN
from incidents.out_of_isr import HAS_BEEN
from incidents.reads import MAY_NOT_COMMIT
from incidents.uncommitted import MAY_LACK_IT
from reports.data.stored_run import Run
from reports.text.answer import Answer
from reports.text.simulated_faults import (
    FAULTS_NEEDED,
    answer_about_faults,
    decisive_faults,
    faults_needed,
    in_this_run,
    numbered,
    shrunk,
)

_ONLY_NEAR = frozenset({"leader-change", "no-progress"})
"""Kinds of cause whose sentence names the fault before it, and no evidence says that it had to be."""

_BEHIND, _BEFORE = "Faults behind it", "Faults before it"
"""What an answer is called that names faults of which evidence shows what they did, and one where it shows nothing."""
_AWAY = (
    *("could not be elected", "before that election", "may not have known who led", "before it cut its log"),
    *("was elected by", "was elected at", " led next", "may have lacked what"),
    *(
        "and then broker",
        " led by ",
        CUT_AS_IT_WENT_ON,
        MAY_LACK_IT,
        MAY_NOT_HAVE_GOT,
        ANOTHER_HAD_TO_LEAD,
        MAY_NOT_COMMIT,
        NOT_FETCHED_AGAIN,
        HAS_BEEN,
        HAD_LEFT_THE_ISR,
    ),
)
"""How evidence says that a fault kept a node from being elected or from a write, let another lead, cut its log, or put
it out of the ISR."""


def about_faults(run: Run, incident: Incident, evidence: Evidence) -> list[Answer]:
    """Answer which faults did it, which ones it needed where that was tried, or else which may stand behind it."""
    tried = evidence.needed
    if run.spec.get("story"):
        text = "Every fault of this run is a step of its schedule, which is played as it is written."
        return [answer_about_faults(FAULTS_NEEDED, text), *shrunk(run, tried)]
    if tried is not None and incident.findings:
        decisive = decisive_faults(incident, evidence)
        needed = faults_needed(incident, evidence, tried, decisive)
        return [*in_this_run(evidence, decisive), needed, *shrunk(run, tried)]
    before = [fault for fault in evidence.faults if incident.at_ns is None or fault.started_ns <= incident.at_ns]
    if evidence.is_simulated:
        began = f"{plural(len(before), 'fault')} began before it" if before else "no fault began before it"
        text = f"Not tried: {began}. `harrow explain` simulates the run again without each of them."
        return [answer_about_faults(_BEFORE, text), *shrunk(run, tried)]
    return [answer_about_faults(*_by_evidence(incident, evidence, before))]


def _by_evidence(incident: Incident, evidence: Evidence, before: Sequence[Fault]) -> tuple[str, str]:
    """Say what the evidence of a real run shows of the faults, or that it does not; first what that is called."""
    if not before and not any(cause.faults for cause in incident.causes):
        return _BEFORE, "No fault had taken effect before it."
    if len(incident.causes) > 1:
        open_ones = list(dict.fromkeys(number for cause in incident.causes for number in _decisive(cause)))
        if open_ones:
            return _BEHIND, f"The evidence leaves it open; it may be {' or '.join(evidence.stories(open_ones))}."
        which = "whether the fault" if len(before) == 1 else f"which of the {count(len(before))} faults"
        return (
            _BEFORE,
            f"The evidence does not tell {which} before it was needed{'' if len(before) == 1 else ', if any'}.",
        )
    cause = incident.cause
    guilty = _decisive(cause) if cause is not None else ()
    near = guilty or (cause.faults if cause is not None else ())
    it = "it" if len(near) == 1 else "them"
    if guilty:
        also = [number for number in (cause.faults if cause is not None else ()) if number not in guilty]
        rest = [fault.number for fault in before if fault.number and fault.number not in (*guilty, *also)]
        near_it = f" Near it, too: {'; '.join(evidence.stories(sorted(also)))}." if also else ""
        another = "Another" if len(rest) == 1 else "Others"
        may = f" {another} came before ({numbered(rest)}) and may have played a part; no evidence shows it."
        others = may if rest else ""
        those = "this one" if len(guilty) == 1 else "these"
        story = capital("; ".join(evidence.stories(guilty)))
        return (
            _BEHIND,
            f"{story}. The evidence points to {those}; the run was not repeated without {it}.{near_it}{others}",
        )
    story = capital("; ".join(evidence.stories(sorted(near))))
    if near and cause is not None and cause.kind == "node-crash":
        which = "the last fault" if len(near) == 1 else "the last faults"
        said = f"{which} on this node before it ended; its last words, in the incident, say more"
        return _BEHIND, f"{story}: {said}. The run was not repeated without {it}."
    if near:
        they = "it" if len(near) == 1 else "they"
        shown = f"No evidence shows how {they} led to it, and the run was not repeated without {it}."
        return _BEFORE, f"{story}. {shown}"
    which = "the fault" if len(before) == 1 else f"any of the {count(len(before))} faults"
    return _BEFORE, f"The evidence does not tell whether {which} before it led to it."


def _decisive(cause: Cause) -> tuple[int, ...]:
    """The faults that the cause rests on: named in its sentence, or because they kept another node from leading."""
    named = () if cause.kind in _ONLY_NEAR else (cause.sentence,)
    decisive = [*named, *(line for line in cause.evidence if any(words in line for words in _AWAY))]
    return tuple(number for number in cause.faults if any(f"fault #{number})" in line for line in decisive))
