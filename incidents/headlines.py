"""Words the headline of an incident: how many of what, where, and why."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from common.wording import capital, partition_name, plural
from history.anomalies import CATALOGUE, MALFORMED
from history.protocol import failure_sentences
from incidents.model import Cause, Election, Span, where

_NOUNS: Mapping[str, tuple[str, str, str]] = {
    "lost-acked-write": ("acknowledged write", "to", "lost"),
    "lost-read": ("record", "of", "read and later lost"),
    "unseen": ("acknowledged write", "to", "never seen by a reader"),
    "end-offset-regression": ("answer about the end", "of", "below an earlier one"),
    "dirty-read": ("read", "of", "given records that were not committed"),
    "duplicate": ("record", "of", "in the log twice"),
    "corrupt-record": ("record", "of", "corrupted"),
    "divergent-replicas": ("offset", "of", "different on different replicas"),
    "inconsistent-offset": ("offset", "of", "given to two records"),
    "reordered-send": ("write", "to", "out of order"),
    "nonmonotonic-send": ("write", "to", "out of order"),
    "phantom-read": ("record", "of", "read although nobody had sent them"),
    "aborted-read": ("record", "of", "read although their writes had failed"),
    "wrong-offset": ("write", "to", "acknowledged with a wrong offset"),
    "nonmonotonic-poll": ("reader", "of", "thrown back"),
    "skipped-poll": ("poll", "of", "answered with a gap"),
}
"""Anomaly → noun in the singular, preposition, what happened to several of them."""
_OF_ANSWERS = frozenset({
    *("end-offset-regression", "nonmonotonic-poll", "skipped-poll", "divergent-replicas", "dirty-read"),
})  # fmt: skip
"""Those of them that count something else than records, of which the sentences of causes say "they"."""
_PRONOUNS = (
    ("other records at their offsets", "another record at its offset"),
    ("they were", "it was"),
    ("they had", "it had"),
    ("their writes", "its write"),
    ("them", "it"),
)
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
_GRAVEST_LOSS = "lost-acked-write"
_PLURALS = {"answer about the end": "answers about the end"}


def gravest(anomalies: Mapping[str, tuple[int, int]]) -> str:
    """Return the name that the headline is about: a violation before all else, then in the order of the catalogue."""
    order = {name: rank for rank, name in enumerate(CATALOGUE)}
    return min(anomalies, key=lambda name: (not anomalies[name][0], order.get(name, len(order)), name))


def headline(
    anomalies: Mapping[str, tuple[int, int]],
    spans: Sequence[Span],
    causes: Sequence[Cause],
    election: Election | None = None,
    *,
    first: int = 0,
    at_least: Collection[str] = (),
    found_first: str = "",
    of_run: int = 0,
) -> str:
    """Return the sentence that says what happened, and why as far as it is known.

    `first`: the spans are those of so many of the anomalies; 0 if of all. `at_least`: of these there may be more
    anomalies than are counted. `found_first`: the property that the simulator saw broken first, which the
    cause is about; the graver harm came later. `of_run`: how many of that name the run has, where that may be more.
    """
    name = gravest(anomalies)
    number = sum(anomalies[name])
    if first and number == sum(span.length for span in spans):
        first = 0  # the stretches have all of them
    of_records = name not in CATALOGUE or (name in _NOUNS and name not in _OF_ANSWERS)
    counts_offsets = of_records or name == "dirty-read"
    some = name in at_least  # there may be others beyond these offsets
    place = where(spans, first=first, number=number if counts_offsets and not some else 0, some=some and counts_offsets)
    of_all = f" (of the run's {of_run:,})" if name in at_least and of_run > number else ""
    effect = _effect(name, number, place, causes, "at least " if name in at_least else "", of_all)
    if effect is not None and all(anomalies[name]):
        effect = f"{effect}, {anomalies[name][1]:,} of them within the contract"
    if effect is not None and anomalies[name][0]:
        effect += _lost_besides(anomalies, at_least)
    clauses = [_agreeing(cause.sentence, number) if of_records else cause.sentence for cause in causes]
    if not clauses or effect is None:
        return f"{capital(clauses[0]) if clauses else effect or name}."
    which = _which(election, f"{'read' if name == 'lost-read' else 'write'}{'' if number == 1 else 's'}")
    if found_first not in ("", name):
        later = f"there were {effect[:1].lower()}{effect[1:]}" if _is_noun_phrase(name) else effect
        return f"{capital('; or '.join(clauses))}{which}. In the end {later}."
    effect = capital(effect) if name in at_least else effect
    if len(clauses) == 1:
        return f"{effect}: {clauses[0]}{which}."
    return f"{effect}; the evidence leaves {len(clauses)} causes: {'; or '.join(clauses)}{which}."


def _lost_besides(anomalies: Mapping[str, tuple[int, int]], at_least: Collection[str]) -> str:
    """Say which writes were lost within the contract beside violations of another kind: they weigh more than those."""
    violations, within = anomalies.get(_GRAVEST_LOSS, (0, 0))
    if violations or not within:
        return ""
    number = f"{'at least ' if _GRAVEST_LOSS in at_least else ''}{plural(within, 'acknowledged write')}"
    return f", and {number} {'was' if within == 1 else 'were'} lost within the contract"


def _which(election: Election | None, since: str) -> str:
    """Say which election was the decisive one, if there were several since these writes, or reads.

    Without leader epochs two brokers may call themselves leader at the same time, and their samples tell no elections.
    """
    if election is None or not election.is_only or election.elections < 2 or election.epoch < 0:
        return ""
    epoch = f"leader epoch {election.epoch} of "
    place = _ORDINALS[election.number - 1] if election.number <= len(_ORDINALS) else f"{election.number}th"
    of_how_many = f"the {place} of {election.elections} leaderships seen after the {since}"
    return f" ({epoch}{partition_name(election.topic, election.partition)}, {of_how_many})"


def _agreeing(sentence: str, number: int) -> str:
    """Return a sentence about records with the pronouns of one record, if there is but one."""
    if number != 1:
        return sentence
    for many, one in _PRONOUNS:
        sentence = re.sub(rf"\b{many}\b", one, sentence)
    return sentence


def _is_noun_phrase(name: str) -> bool:
    """Whether what happened is said without a verb."""
    return name in CATALOGUE and name not in (*_NOUNS, "stale-read", "unavailable", MALFORMED)


def _effect(name: str, number: int, place: str, causes: Sequence[Cause], at_least: str, of_all: str = "") -> str | None:
    if name in _NOUNS:
        noun, preposition, happened = _NOUNS[name]
        things = f"{at_least}{plural(number, noun, _PLURALS.get(noun))}{of_all}"
        return f"{things} {preposition} {place} {'was' if number == 1 else 'were'} {_agreeing(happened, number)}"
    if name == "stale-read":
        began = "it began" if number == 1 else "they began"
        return f"{at_least}{plural(number, 'read')} of {place} missed what had been acknowledged before {began}"
    if name == MALFORMED:
        return f"{plural(number, 'row')} of the history {'is' if number == 1 else 'are'} malformed"
    if name == "unavailable":
        return f"{place} did not recover"
    if name in CATALOGUE:
        known = CATALOGUE[name]
        return None if causes and name == "node-lost" else f"{capital(known.breach)} ({at_least}{number:,}) in {place}"
    if causes:
        return None
    return failure_sentences().get(name)
