"""Explains a run in a few lines: its verdict, and each incident with its causes and what speaks for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.wording import plural, printable
from incidents import Cause, Incident
from reports.data.joined import Joined
from reports.data.stored_run import load_run
from reports.text.answers import answers
from reports.text.summary import summarize
from reports.text.verdict import Word

INCIDENTS_SHOWN = 3
_INDENT = "  "


@dataclass(frozen=True)
class Explanation:
    """What became of a run, and why."""

    word: Word
    lines: tuple[str, ...]
    """The verdict with the first headline, and then the evidence; safe to print on a terminal."""


def explain_run(run_directory: Path) -> Explanation:
    """Explain a stored run. Raises `RunNotFoundError` if there is no such directory."""
    run = load_run(run_directory)
    verdict = summarize(run, Joined(run)).verdict
    planted = f" {verdict.planted}" if verdict.planted else ""
    answered = [f"{_INDENT}{answer.question.lower()}: {answer.whole}" for answer in answers(run)]
    lines = [f"{verdict.word.upper()}  {verdict.sentence}{planted}", *answered, *_incidents(run.incidents)]
    return Explanation(verdict.word, tuple(printable(line) for line in lines))


def _incidents(incidents: Sequence[Incident]) -> Iterator[str]:
    for number, incident in enumerate(incidents[:INCIDENTS_SHOWN], start=1):
        if number > 1 or incident.within_contract:  # the verdict has the first headline
            yield f"{number}. {incident.headline}"
        if incident.cause is not None:
            yield from _support(incident.cause, _INDENT)
            continue
        for sentence in incident.common_evidence:
            yield f"{_INDENT}evidence, whichever it was: {sentence}"
        for place, candidate in enumerate(incident.causes, start=1):
            yield f"{_INDENT}candidate {place} of {len(incident.causes)}: {candidate.sentence}"
            yield from _support(candidate, 2 * _INDENT, incident.common_evidence)
    if len(incidents) > INCIDENTS_SHOWN:
        yield f"and {plural(len(incidents) - INCIDENTS_SHOWN, 'more incident')} in the report"


def _support(cause: Cause, indent: str, common: Collection[str] = ()) -> Iterator[str]:
    for sentence in cause.evidence:
        if sentence not in common:
            yield f"{indent}evidence: {sentence}"
    if cause.allowed_by:
        yield f"{indent}allowed by: {cause.allowed_by}"
