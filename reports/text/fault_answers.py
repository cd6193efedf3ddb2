"""Answers which faults a failure needed, as far as that was tried; else which are behind it, or came before it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import quote

from common.wording import capital, count, moment, nodes, plural
from history.contract import DOWN_ALREADY
from history.protocol import failure_sentences
from incidents import Cause, Incident
from incidents.deeds import ANOTHER_HAD_TO_LEAD
from incidents.evidence import Evidence
from incidents.faults import Fault
from incidents.headlines import gravest
from incidents.losses import CUT_AS_IT_WENT_ON, MAY_NOT_HAVE_GOT, NOT_FETCHED_AGAIN
from incidents.needed import Needed, smallest
from incidents.out_of_isr import HAS_BEEN
from incidents.partition_history import NO_LEADER
from incidents.reads import MAY_NOT_COMMIT
from incidents.simulated import LEFT_THE_ISR
from incidents.uncommitted import MAY_LACK_IT
from reports.data.stored_run import Run
from reports.text.answer import Answer

FAULTS_NAMED = 6
NEAREST_NAMED = 3
_LONG_STORY = 300
"""Characters of a story of needed faults that is too long beside a shorter one."""
_FAULT_NUMBERS = re.compile(r" \(faults? #[^()]{1,200}\)")
_LONGEST_SHRUNK = 600
"""Characters of the longest story of a shrunk run that is told: where the shrinking ended early it may be longer."""
_NEAR_NS = 5_000_000_000
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
    ),
)
"""How evidence says that a fault kept a node from being elected or from a write, let another lead, cut its log, or put
it out of the ISR."""


def faults_of(run: Run, incident: Incident, evidence: Evidence) -> Answer:
    """Answer which faults it needed, where that was tried; else which may stand behind it."""
    question = "Faults needed"
    if run.spec.get("story"):
        text = "Every fault of this run is a step of its schedule, which is played as it is written."
    elif evidence.needed is not None and incident.findings:
        later = incident.found_first != gravest(incident.anomalies)
        broken = failure_sentences().get(incident.found_first)
        first = f"{incident.found_first}{f' ({broken})' if broken else ''}"
        what_for = f" for the first violation, {first}" if later else ""
        is_shrunk = smallest(run.directory) is not None
        answer = _by_simulating(incident, evidence, evidence.needed, what_for, is_shrunk=is_shrunk)
        return replace(answer, rest=f"{answer.rest} {_then_elected(evidence)}".strip()) if later else answer
    else:
        before = [fault for fault in evidence.faults if incident.at_ns is None or fault.started_ns <= incident.at_ns]
        if evidence.is_simulated:
            question = _BEFORE
            began = f"{plural(len(before), 'fault')} began before it" if before else "no fault began before it"
            text = f"Not tried: {began}. `harrow explain` simulates the run again without each of them."
        else:
            question, text = _by_evidence(incident, evidence, before)
    return Answer(question, text, "faults", "all faults")


def in_this_run(run: Run, incident: Incident, evidence: Evidence) -> list[Answer]:
    """Say what did it in a simulated run, where its cause tells: others may do without these faults."""
    did = _did_it(incident, evidence)
    if not did or run.spec.get("story") or evidence.needed is None:
        return []
    return [Answer("In this run", f"{capital('; '.join(evidence.stories(did)))}.")]


def _did_it(incident: Incident, evidence: Evidence) -> list[int]:
    """The faults that the headline of what the simulator found names, or by which others had left the ISR before."""
    if not incident.findings:
        return []
    cause = incident.cause
    chain = [line for line in (cause.evidence if cause is not None else ()) if LEFT_THE_ISR in line]
    named = [fault for fault in evidence.faults if any(f"fault #{fault.number})" in line for line in chain)]
    named += [fault for fault in evidence.faults if fault not in named and _is_named(incident, fault)]
    return [fault.number for fault in sorted(named, key=lambda fault: fault.started_ns)]


def shrunk(run: Run) -> list[Answer]:
    """Say what is left of the failure in the run beside this one to which it was shrunk."""
    found = smallest(run.directory)
    if found is None:
        return []
    directory = found.directory
    page = f"../{quote(directory.name)}/report.html"
    evidence = Evidence(directory)
    known = evidence.needed
    if known is not None and known.untested:
        return [Answer("Shrunk", f"The run {directory.name} beside this one is what is left of it.", page=page)]
    numbers = [fault.number for fault in evidence.faults if fault.number]
    stories = evidence.stories(known.needed if known is not None else numbers)
    told = _FAULT_NUMBERS.sub("", "; ".join(stories))  # of the other run
    if not stories:
        enough = "In a smaller run the same rule breaks without a fault"
    elif len(told) <= _LONGEST_SHRUNK:
        enough = f"In a smaller run this is enough for the same rule to break: {told}"
    else:
        enough = f"In a smaller run {count(len(stories))} faults are enough for the same rule to break"
    text = f"{enough}. The run {directory.name} beside this one shows it."
    if found.was_cut_short:
        text += " Its shrinking was ended early: it may have more than the failure needs."
    return [Answer("Shrunk", text, page=page)]


def _by_simulating(incident: Incident, evidence: Evidence, needed: Needed, what_for: str, *, is_shrunk: bool) -> Answer:
    """Say what simulations without some of the faults have shown; `what_for` says of which harm.

    `is_shrunk`: the page also tells what is left of it, so that a long story is left to the incident.
    """
    number = count(needed.redraws + 1)
    tries = f"{number} simulations: one with the same random choices (delays and the like), the rest with others"
    stories, others = evidence.stories(needed.needed), needed.not_needed
    sentences = []
    items: tuple[str, ...] = ()
    untold = False
    if stories:
        if needed.is_chance:
            return _by_chance(incident, evidence, needed, what_for)
        if is_shrunk and sum(map(len, stories)) > _LONG_STORY:
            own = needed.own
            untold = len(own) > FAULTS_NAMED
            numbers = f"{_numbers(own)}, which the incident tells one by one"
            items = (numbers,) if untold else tuple(evidence.stories(own, in_brief=True))
        else:
            items = tuple(stories)
        these = "it" if len(stories) == 1 else "these"
        without = "Without it" if len(stories) == 1 else "Without any one of them"
        if needed.parts and len(stories) > 1:
            without += " (what belongs together counts as one)"
        alone = f"{these} and those not tried" if needed.untested else f"{these} alone"
        if needed.again == 0:
            sentences.append(
                f"With {alone} and the same random choices (delays and the like) the failure occurs again. {without}"
                f" it does not. Chance plays a part, too: with other random choices it occurred with {alone} in"
                f" none of {count(needed.redraws)} simulations."
            )
        else:
            sentences.append(f"With {alone} the failure occurs again. {without} it did not, in {tries}.")
        if others:
            one = len(others) == 1
            many = f"{count(len(others))} other faults" if needed.untested else f"the other {count(len(others))} faults"
            named = evidence.stories(others)[0] if one else f"{many} before the violation"
            sentences.append(f"Not needed: {named}; without {'it' if one else 'them'} it occurs, too.")
            did = _did_it(incident, evidence)
            if not untold and not one and not did and (near := _nearest(incident, evidence, others)):
                sentences.append(f"In this run there were also, in effect then or shortly before: {'; '.join(near)}.")
            if spared := [number for number in did if number in others]:
                were = "was" if len(spared) == 1 else "were"
                sentences.append(
                    f"In this run it came about in another way, in which {_numbers(spared)} {were} decisive."
                )
    elif not needed.untested:
        why = f"it occurs without {_numbers(others)}, too" if others else "none had begun by then"
        sentences.append(f"No fault was needed{what_for}: {why}.")
    elif others:
        sentences.append(f"None is known to be needed yet. Not needed: {_numbers(others)}.")
    is_open = bool(needed.untested and not stories)
    standing = _in_effect(incident, evidence, needed.untested if is_open else None) if untold or is_open else []
    if standing:
        told_of = "; ".join(fault.story for fault in standing)
        sentences.append(f"In effect at the violation{', and not tried' if is_open else ''}: {told_of}.")
    if needed.untested:
        apart = [number for number in needed.untested if number not in {fault.number for fault in standing}]
        also = "Not tried either, for" if len(apart) < len(needed.untested) else "Not tried, for"
        which = f"{also} want of time: {_numbers(apart)}" if apart else "There was no time to try them"
        sentences.append(
            f"{which}; `harrow explain RUN --time-limit 5m` goes on, with the directory of this page for RUN."
        )
        of_headline = [
            fault.story for fault in evidence.faults if fault.number in needed.untested and _is_named(incident, fault)
        ]
        if of_headline:
            sentences.append(f"What the headline names is among them: {'; '.join(of_headline)}.")
    question, told = "Faults needed", " ".join(sentences)
    if items:
        return Answer(question, f"Needed{what_for}:", "faults", "all faults", items, told)
    return Answer(question, told, "faults", "all faults")


def _by_chance(incident: Incident, evidence: Evidence, needed: Needed, what_for: str) -> Answer:
    """Say that leaving faults out did not tell which of them matter, and which of them were near."""
    series_begun = {first for first, *_ in needed.parts}
    single = [fault for fault in evidence.faults if fault.number in needed.needed and fault.number not in series_begun]
    of_headline = [fault.story for fault in single if _is_named(incident, fault)]
    near = _nearest(incident, evidence, [fault.number for fault in single])
    near = [story for story in near if story not in of_headline]
    series = ", what belongs together as one," if needed.parts else ""
    sentences = [f"{capital('; '.join(of_headline))}, as the headline says."] if of_headline else []
    if near:
        sentences.append(f"In effect at the violation or shortly before: {'; '.join(near)}.")
    sentences.append(
        f"Leaving faults out does not tell which of {count(len(needed.own))} matter{what_for}. With these{series} and"
        " the same random choices (delays and the like) the failure occurs again, and without any one of them it"
        " does not; but with other random choices it occurred with all of them in none of"
        f" {count(needed.redraws)} simulations: what is left out moves everything after it."
    )
    if needed.not_needed:
        sentences.append(f"Without {_numbers(needed.not_needed)} it occurs, too.")
    return Answer("Faults needed", " ".join(sentences), "faults", "all faults")


def _is_named(incident: Incident, fault: Fault) -> bool:
    return f"fault #{fault.number})" in incident.headline


def _nearest(incident: Incident, evidence: Evidence, among: Sequence[int]) -> list[str]:
    """Tell those of some faults that lasted until shortly before a violation: of its brokers, if it names some."""
    at_ns = incident.at_ns
    if at_ns is None or not evidence.findings:
        return []
    brokers = {*evidence.findings[0].brokers}
    near = [
        (at_ns - min(fault.ended_ns if fault.ended_ns is not None else at_ns, at_ns), -fault.started_ns, fault)
        for fault in evidence.faults
        if fault.number in among
        and fault.detail != DOWN_ALREADY
        and (not brokers or not fault.targets or fault.targets & brokers)
    ]
    return [fault.story for gap_ns, _, fault in sorted(near)[:NEAREST_NAMED] if gap_ns <= _NEAR_NS]


def _in_effect(incident: Incident, evidence: Evidence, among: Sequence[int] | None) -> list[Fault]:
    """The faults that lasted at a violation, but for those that found their node down; with `among` only these."""
    at_ns = incident.at_ns
    if at_ns is None or not evidence.findings:
        return []
    lasting = evidence.in_effect(at_ns, evidence.findings[0].brokers, among)
    return [fault for fault in lasting if fault.detail != DOWN_ALREADY]


def _then_elected(evidence: Evidence) -> str:
    """Tell the election by which a replica that the first violation is about did harm, and what had hit the leader."""
    finding = evidence.findings[0] if evidence.findings else None
    if finding is None or finding.at_ns is None or finding.topic is None or finding.partition is None:
        return ""
    history = evidence.history_of(finding.topic, finding.partition)
    before = history.leader_at(finding.at_ns)
    for stretch in history.leaderships:
        if stretch.start_ns > finding.at_ns and stretch.leader in finding.brokers:
            former = before.leader if before is not None and before.leader != stretch.leader else None
            meanwhile = [fault for fault in evidence.faults if fault.touches(finding.at_ns, stretch.start_ns)]
            hit = [fault.story for fault in meanwhile if former in fault.targets]
            elected = f"{nodes([stretch.leader])} was elected leader, as was seen at {moment(stretch.start_ns)}"
            return f"The harm itself came when {elected}{f', after {hit[-1]}' if hit else ''}."
        before = stretch if stretch.leader != NO_LEADER else before
    return ""


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
        others = (
            f" What else came before it ({_numbers(rest)}) may have played a part; no evidence shows it."
            if rest
            else ""
        )
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


def _numbers(numbers: Sequence[int]) -> str:
    named = ", ".join(f"#{number}" for number in numbers[:FAULTS_NAMED])
    more = len(numbers) - FAULTS_NAMED
    return f"fault{'' if len(numbers) == 1 else 's'} {named}" + (f" and {count(more)} more" if more > 0 else "")
