"""Answers what led to a simulated failure: the faults of this run, those that it needs, and what shrinking has left."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import quote

from common.wording import capital, count, moment, nodes, plural
from history.contract import DOWN_ALREADY
from history.protocol import failure_sentences
from incidents import Incident
from incidents.chains import ASKED_TO_DROP, CAME_BACK, LEFT_THE_ISR, NOT_HEARD
from incidents.deeds import ANOTHER_HAD_TO_LEAD
from incidents.evidence import Evidence
from incidents.faults import Fault
from incidents.headlines import gravest
from incidents.later_losses import IN_THE_END
from incidents.needed import Needed, smallest
from incidents.partition_history import NO_LEADER
from reports.data.stored_run import Run
from reports.text.answer import Answer

FAULTS_NEEDED = "Faults needed"
_FAULTS_NAMED = 6
_NEAREST_NAMED = 3
_LONG_STORY = 300
"""Characters of the story of a series of faults of which the numbers of its parts are told instead."""
_LONGEST_SHRUNK = 600
"""Characters of the longest story of a shrunk run that is told: where the shrinking ended early it may be longer."""
_FAULT_NUMBERS = re.compile(r" \(faults? #[^()]{1,200}\)")
_NEAR_NS = 5_000_000_000
_SAME_CHOICES = "the same random choices (delays and the like)"


_OF_A_CHAIN = (LEFT_THE_ISR, ANOTHER_HAD_TO_LEAD, ASKED_TO_DROP, NOT_HEARD, CAME_BACK)
"""How evidence says what led to the first violation."""


class Decisive(NamedTuple):
    """The numbers of the faults that did it in this run, as far as its cause tells."""

    first: tuple[int, ...] = ()
    """Those that the headline names, or what led to the first violation, as the evidence tells it."""
    later: tuple[int, ...] = ()
    """Those by which records were lost in the end, in what came after it."""


def decisive_faults(incident: Incident, evidence: Evidence) -> Decisive:
    """Return the faults that the cause of what the simulator found tells of."""
    if not incident.findings:
        return Decisive()
    lines = incident.cause.evidence if incident.cause is not None else ()
    at_first = [line for line in lines if not line.startswith(IN_THE_END)]
    chain = [line for line in at_first if any(words in line for words in _OF_A_CHAIN)]
    first = {*_named_in(evidence, chain), *(fault for fault in evidence.faults if _is_named(incident, fault))}
    later = {*_named_in(evidence, _in_the_end(incident))} - first
    return Decisive(_by_start(first), _by_start(later))


def _in_the_end(incident: Incident) -> list[str]:
    lines = incident.cause.evidence if incident.cause is not None else ()
    return [line for line in lines if line.startswith(IN_THE_END)]


def _named_in(evidence: Evidence, lines: Sequence[str]) -> list[Fault]:
    return [fault for fault in evidence.faults if any(f"fault #{fault.number})" in line for line in lines)]


def _by_start(faults: Iterable[Fault]) -> tuple[int, ...]:
    return tuple(fault.number for fault in sorted(faults, key=lambda fault: (fault.started_ns, fault.number)))


def in_this_run(evidence: Evidence, decisive: Decisive) -> list[Answer]:
    """Say which faults did it, where its cause tells: others may do without these."""
    stories = {fault.number: fault.story for fault in evidence.faults}  # each by itself, also what a series consists of
    first, later = ([stories[number] for number in numbers] for numbers in (decisive.first, decisive.later))
    said = [f"{capital('; '.join(first))}."] if first else []
    said += [f"Before the loss in the end: {'; '.join(later)}."] if later else []
    return [Answer("In this run", " ".join(said))] if said else []


def faults_needed(incident: Incident, evidence: Evidence, tried: Needed, decisive: Decisive) -> Answer:
    """Say what simulations without some of the faults have shown; `decisive`: the faults that did it in this run."""
    is_later = incident.found_first != gravest(incident.anomalies)
    what_for = ""
    if is_later:
        broken = failure_sentences().get(incident.found_first)
        what_for = f" for the first violation, {incident.found_first}{f' ({broken})' if broken else ''}"
    if not tried.needed:
        answer = _none_known(incident, evidence, tried, what_for)
    elif tried.is_chance:
        answer = _by_chance(incident, evidence, tried, what_for)
    else:
        answer = _needed(incident, evidence, tried, decisive, what_for)
    if not is_later:
        return answer
    lost = " ".join(line.partition(". ")[0] + "." for line in _in_the_end(incident))
    return replace(answer, rest=f"{answer.rest} {lost or _then_elected(evidence)}".strip())


def shrunk(run: Run, tried: Needed | None) -> list[Answer]:
    """Say what is left of the failure in the run beside this one to which it was shrunk.

    `tried`: what leaving faults out of this run has shown. Where that has told what is needed, the other story is not
    told beside it, which may be a different one.
    """
    found = smallest(run.directory)
    if found is None:
        return []
    page = f"../{quote(found.directory.name)}/report.html"
    beside = f"The run {found.directory.name} beside this one"
    early = " Its shrinking was ended early: it may have more than the failure needs." if found.was_cut_short else ""
    evidence = Evidence(found.directory)
    known = evidence.needed
    if known is not None and known.untested:
        return [Answer("Shrunk", f"{beside} is what is left of it.", page=page)]
    numbers = [fault.number for fault in evidence.faults if fault.number]
    stories = evidence.stories(known.needed if known is not None else numbers)
    told = _FAULT_NUMBERS.sub("", "; ".join(stories))  # of the other run
    if tried is not None and tried.needed and not tried.is_chance:
        enough = plural(len(stories), "fault") if stories else "no fault"
        series = " (a series of faults counts as one)" if known is not None and known.parts else ""
        way = "maybe in another way" if stories else "so in another way"
        text = f"{beside} breaks the same rule with {enough}{series} and fewer steps, {way}.{early}"
        return [Answer("Shrunk", text, page=page)]
    if not stories:
        enough = "In a smaller run the same rule breaks without a fault"
    elif len(told) <= _LONGEST_SHRUNK:
        enough = f"In a smaller run this is enough for the same rule to break: {told}"
    else:
        enough = f"In a smaller run {count(len(stories))} faults are enough for the same rule to break"
    return [Answer("Shrunk", f"{enough}. {beside} shows it.{early}", page=page)]


# --- what leaving faults out has shown -------------------------------------------------------------------------------


def _needed(incident: Incident, evidence: Evidence, tried: Needed, decisive: Decisive, what_for: str) -> Answer:
    own, others = tried.own, tried.not_needed
    spared = [number for number in decisive.first if number in others]
    sentences = [_that_they_suffice(tried, len(own))]
    if len(others) == 1 and not spared:
        sentences.append(f"Not needed: {evidence.stories(others)[0]}; without it it occurs, too.")
    elif len(others) > len(spared):
        many = f"{count(len(others))} other faults" if tried.untested else f"the other {count(len(others))} faults"
        sentences.append(f"Not needed: {many} before the violation; without them it occurs, too.")
        if not decisive.first and (near := _nearest(incident, evidence, others)):
            sentences.append(f"In this run there were also, in effect then or shortly before: {'; '.join(near)}.")
    standing = _in_effect(incident, evidence, None) if len(own) > _FAULTS_NAMED else []
    if standing:
        sentences.append(f"In effect at the violation: {'; '.join(fault.story for fault in standing)}.")
    if tried.untested:
        sentences += _not_tried(incident, evidence, tried, standing, decisive)
    if {*own} == {*decisive.first}:
        named = "the one named" if len(own) == 1 else "those named"
        return answer_about_faults(FAULTS_NEEDED, " ".join([f"Needed{what_for}: {named} for this run.", *sentences]))
    introduction = f"Needed{what_for}:"
    if spared:
        which = "first violation" if what_for else "failure"
        introduction = f"The {which} occurs without {numbered(spared)}, too, in another way. {introduction}"
    return answer_about_faults(FAULTS_NEEDED, introduction, tuple(_items(evidence, own)), " ".join(sentences))


def _items(evidence: Evidence, numbers: Sequence[int]) -> list[str]:
    stories = zip(evidence.stories(numbers), evidence.stories(numbers, in_brief=True), strict=True)
    told = [story if len(story) <= _LONG_STORY else brief for story, brief in stories]
    more = numbers[_FAULTS_NAMED:]
    return told if not more else [*told[:_FAULTS_NAMED], f"{numbered(more)}, which the incident tells"]


def _that_they_suffice(tried: Needed, number: int) -> str:
    these, without = ("it", "Without it") if number == 1 else ("these", "Without any one of them")
    if tried.parts and number > 1:
        without += " (what belongs together counts as one)"
    apart = " The parts of a series were not tried apart." if tried.parts else ""
    alone = f"{these} and those that were not tried" if tried.untested else f"{these} alone"
    if tried.again == 0:
        return (
            f"With {alone} and {_SAME_CHOICES} the failure occurs again. {without} it does not. Chance plays a part,"
            f" too: with other random choices it occurred with {alone} in none of {count(tried.redraws)}"
            f" simulations.{apart}"
        )
    return (
        f"With {alone} the failure occurs again. {without} it did not, in {count(tried.redraws + 1)} simulations: one"
        f" with {_SAME_CHOICES}, the rest with others.{apart}"
    )


def _none_known(incident: Incident, evidence: Evidence, tried: Needed, what_for: str) -> Answer:
    others = tried.not_needed
    if not tried.untested:
        why = f"it occurs without {numbered(others)}, too" if others else "none had begun by then"
        return answer_about_faults(FAULTS_NEEDED, f"No fault was needed{what_for}: {why}.")
    sentences = [f"None is known to be needed yet. Not needed: {numbered(others)}."] if others else []
    standing = _in_effect(incident, evidence, tried.untested)
    if standing:
        told = "; ".join(fault.story for fault in standing)
        sentences.append(f"In effect at the violation, and not tried: {told}.")
    return answer_about_faults(
        FAULTS_NEEDED, " ".join([*sentences, *_not_tried(incident, evidence, tried, standing, Decisive())])
    )


def _not_tried(
    incident: Incident, evidence: Evidence, tried: Needed, standing: Sequence[Fault], decisive: Decisive
) -> list[str]:
    """Say for which faults there was no time, first those that did it; `standing`: those that are named already."""
    said = {fault.number for fault in standing}
    apart = [number for number in tried.untested if number not in said]
    apart.sort(key=lambda number: number not in decisive.first)
    also = "Not tried either, for" if len(apart) < len(tried.untested) else "Not tried, for"
    which = f"{also} want of time: {numbered(apart)}" if apart else "There was no time to try them"
    sentences = [f"{which}; `harrow explain RUN --time-limit 5m` goes on, with the directory of this page for RUN."]
    of_headline = [
        fault.story for fault in evidence.faults if fault.number in tried.untested and _is_named(incident, fault)
    ]
    if of_headline:
        sentences.append(f"What the headline names is among them: {'; '.join(of_headline)}.")
    return sentences


def _by_chance(incident: Incident, evidence: Evidence, tried: Needed, what_for: str) -> Answer:
    """Say that leaving faults out did not tell which of them matter, and which of them were near."""
    series_begun = {first for first, *_ in tried.parts}
    single = [fault for fault in evidence.faults if fault.number in tried.needed and fault.number not in series_begun]
    of_headline = [fault.story for fault in single if _is_named(incident, fault)]
    near = _nearest(incident, evidence, [fault.number for fault in single])
    near = [story for story in near if story not in of_headline]
    series = ", what belongs together as one," if tried.parts else ""
    sentences = [f"{capital('; '.join(of_headline))}, as the headline says."] if of_headline else []
    if near:
        sentences.append(f"In effect at the violation or shortly before: {'; '.join(near)}.")
    sentences.append(
        f"Leaving faults out does not tell which of {count(len(tried.own))} matter{what_for}. With these{series} and"
        f" {_SAME_CHOICES} the failure occurs again, and without any one of them it does not; but with other random"
        f" choices it occurred with all of them in none of {count(tried.redraws)} simulations: what is left out moves"
        " everything after it."
    )
    if tried.not_needed:
        sentences.append(f"Without {numbered(tried.not_needed)} it occurs, too.")
    return answer_about_faults(FAULTS_NEEDED, " ".join(sentences))


def answer_about_faults(question: str, text: str, items: tuple[str, ...] = (), rest: str = "") -> Answer:
    """Return an answer that leads to the table of all faults."""
    return Answer(question, text, "faults", "all faults", items, rest)


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
    return [fault.story for gap_ns, _, fault in sorted(near)[:_NEAREST_NAMED] if gap_ns <= _NEAR_NS]


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


def numbered(numbers: Sequence[int]) -> str:
    """Name faults by their numbers, the first few of many: "faults #1, #4"."""
    named = ", ".join(f"#{number}" for number in numbers[:_FAULTS_NAMED])
    more = len(numbers) - _FAULTS_NAMED
    return f"fault{'' if len(numbers) == 1 else 's'} {named}" + (f" and {count(more)} more" if more > 0 else "")
