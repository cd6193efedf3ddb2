"""Prints the summary and the verdict of a run to the terminal. Colours carry no information."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from common.wording import count, duration, enumeration, plural
from history.anomalies import MALFORMED
from incidents import Incident
from reports.data.joined import Joined
from reports.data.stored_run import load_run
from reports.text.summary import Summary, summarize
from reports.text.totals import disagreements

INCIDENTS_SHOWN = 5
REASONS_SHOWN = 5
PROBLEMS_SHOWN = 5
TROUBLES_SHOWN = 5

_STYLES = {"valid": "bold green", "invalid": "bold red", "unknown": "bold yellow"}


def summary_lines(run_directory: Path) -> RenderableType:
    """Return the table of what was done in a run, and its verdict, to be printed by a rich console.

    Raises `RunNotFoundError` if there is no such directory; what is missing in it is listed.
    """
    run = load_run(run_directory)
    summary = summarize(run, Joined(run))
    parts: list[RenderableType] = [_verdict(summary), *_incidents(run.incidents), Text()]
    parts += [_table(summary, checked=bool(run.results)), Text(), _last(summary, run.incidents)]
    parts += [Text(f"  {reason}") for reason in summary.verdict.other_reasons[:REASONS_SHOWN]]
    troubles = [(trouble["text"] or "").partition("\n")[0] for trouble in run.troubles]
    parts += [Text(f"  trouble: {text}") for text in troubles[:TROUBLES_SHOWN]]
    if len(troubles) > TROUBLES_SHOWN:
        parts.append(Text(f"  and {len(troubles) - TROUBLES_SHOWN} more in the report"))
    problems = [*run.problems, *disagreements(run)]
    if problems:
        left = len(problems) - PROBLEMS_SHOWN
        parts.append(
            Text("  incomplete: " + " ".join(problems[:PROBLEMS_SHOWN]) + (f" And {left} more." if left > 0 else ""))
        )
    return Group(*parts)


def _verdict(summary: Summary) -> Text:
    verdict = summary.verdict
    planted = f" {verdict.planted}" if verdict.planted else ""
    return Text.assemble((verdict.word.upper(), _STYLES[verdict.word]), f"  {verdict.sentence}{planted}")


def _incidents(incidents: Sequence[Incident]) -> list[Text]:
    """Return what there is to say after the verdict, which has the first headline: why it could be, and the others."""
    lines = []
    for number, incident in enumerate(incidents[:INCIDENTS_SHOWN], start=1):
        if number > 1 or incident.within_contract:
            lines.append(Text(f"  {number}. {incident.headline}"))
        allowed = [cause.allowed_by for cause in incident.causes if cause.allowed_by]
        lines += [Text(f"     {sentence}") for sentence in dict.fromkeys(allowed)]
    if len(incidents) > INCIDENTS_SHOWN:
        lines.append(Text(f"  and {plural(len(incidents) - INCIDENTS_SHOWN, 'more incident')} in the report"))
    return lines


def _last(summary: Summary, incidents: Sequence[Incident]) -> Text:
    word = summary.verdict.word
    within = sum(incident.within_contract for incident in incidents)
    violating = len(incidents) - within
    parts = [plural(violating, "incident")] if violating else []
    parts += [f"{count(within) if violating else plural(within, 'incident')} within the contract"] if within else []
    return Text.assemble((word.upper(), _STYLES[word]), f"  {', '.join(parts)}" if parts else "")


def _table(summary: Summary, checked: bool) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()

    def row(name: str, what: str) -> None:
        table.add_row(Text(name), Text(what))

    row("run", f"{summary.name}, seed {summary.seed}, {duration(summary.duration_ns)}")
    for operation in summary.operations:
        row(
            f"{operation.kind} operations",
            f"{count(operation.ok)} ok, {count(operation.fail)} fail, {count(operation.info)} info",
        )
    row("writes", f"{count(summary.acknowledged)} acknowledged of {count(summary.sent)} sent")
    row("reads", f"{plural(summary.read, 'record')}, {count(summary.distinct_read)} distinct")
    kinds = [f"{fault.kind} {fault.took_hold} of {fault.fired}" for fault in summary.faults]
    row("faults that took effect", enumeration(kinds) or "none")
    for total in summary.anomalies:
        allowed = plural(total.within_contract, "row") if total.name == MALFORMED else ""
        allowed = allowed or f"{count(total.within_contract)} within the contract"
        row(total.name, f"{plural(total.violations, 'violation')}, {allowed}")
    if not summary.anomalies:
        row("anomalies", "none" if checked else "not checked")
    for name, what in summary.mechanisms:
        row(name, what)
    return table
