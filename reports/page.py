"""Renders the page of a run: one self-contained HTML file."""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import jinja2

from common import wording
from common.atomic_files import replacing
from history.anomalies import MALFORMED
from history.processes import NUMBERS_PER_WORKER
from incidents.deeds import meaning
from incidents.evidence import Evidence
from reports import templating
from reports.data.availability import FAULTS_MAX, outages, quiet_gap_ns
from reports.data.joined import Joined
from reports.data.stored_run import LOG_LINES_MAX, Run, load_run, node_logs
from reports.data.story import load_story
from reports.data.suspects import fault_parameters, fault_role, recipe_of
from reports.pictures.decisive_seconds import DRAWN_MAX, DecisiveSeconds, decisive_seconds
from reports.pictures.linearizability import draw_objects, picture_name
from reports.pictures.sequence import sequence
from reports.pictures.strips import (
    PARTITIONS_MAX,
    controller_strip,
    fault_segments,
    partition_strips,
    ticks,
    version_strips,
)
from reports.pictures.theme import fault_family
from reports.pictures.timeline import timeline
from reports.pictures.workbench import workbench
from reports.rules import with_rules
from reports.text import configuration
from reports.text.anomalies import groups
from reports.text.anomaly_groups import AnomalyGroup
from reports.text.answer import Answer
from reports.text.answers import answers
from reports.text.configuration import reproduce_command
from reports.text.incidents import INCIDENTS_SHOWN, incidents_of_fault, shown_incidents
from reports.text.schedule import unfired
from reports.text.summary import summarize
from reports.text.totals import disagreements

PROBLEMS_SHOWN = 40
TROUBLES_MAX = 100
CONFIGURATION_CHARACTERS = 40_000
START_UP_TOLD_NS = 1_000_000_000
"""A start-up that took as long is told, since times count from its beginning."""


def render(run_directory: Path) -> Path:
    """Write `report.html` into a run directory and return its path.

    The page says what is missing or broken in the directory. Raises `RunNotFoundError` if there is no such
    directory, and `OSError` if the page cannot be written.
    """
    page = run_directory / "report.html"
    run = load_run(run_directory)
    with replacing(page) as unfinished:
        unfinished.write_text(html(run), encoding="utf-8")
    draw_objects(run)
    return page


def html(run: Run) -> str:
    """Return the page."""
    joined = Joined(run)

    evidence = Evidence(run.directory)
    history_of = evidence.history_of
    histories = [history_of(*pair) for pair in joined.partitions[:PARTITIONS_MAX]]
    story = load_story(run.directory)
    decisive = decisive_seconds(run, joined, history_of) if story is None else []
    anomalies = groups(run, joined, history_of)
    anchors = _anchors(run)
    template = _environment().get_template("page.html")
    page = template.render(
        run=run,
        summary=summarize(run, joined),
        answers=_leading_to_cards(answers(run), anomalies),
        command=reproduce_command(run, "RUN"),
        picture=picture_name(run),
        problems=[*run.problems, *disagreements(run)],
        problems_shown=PROBLEMS_SHOWN,
        start_up_told_ns=START_UP_TOLD_NS,
        timeline=timeline(run, joined),
        diagram=sequence(story),
        story=None if story is None else story.to_json(),
        decisive=[_drawn(chart) for chart in decisive],
        charted={chart.number for chart in decisive},
        contract=configuration.contract_sentences(run),
        groups=anomalies,
        numbers_per_worker=NUMBERS_PER_WORKER,
        has_later_workers=_has_later_workers(anomalies),
        workbench=workbench(run, joined, histories, anomalies, anchors, evidence.log_lines),
        records=_records(anomalies),
        incidents=shown_incidents(run),
        incidents_left=max(0, len(run.incidents) - INCIDENTS_SHOWN),
        strips=partition_strips(run, histories),
        partitions=len(joined.partitions),
        fault_segments=fault_segments(run),
        controllers=controller_strip(run),
        versions=version_strips(run),
        ticks=ticks(run),
        outages=outages(run, joined, histories),
        quiet_gap_ns=quiet_gap_ns(run, joined),
        faults=run.faults[:FAULTS_MAX],
        anchors=anchors,
        troubles_max=TROUBLES_MAX,
        node_logs=node_logs(run.directory),
        log_lines=LOG_LINES_MAX,
        configuration=_configuration(run),
    )
    return with_rules(templating.neutral(page))


def _leading_to_cards(found: Sequence[Answer], anomalies: Sequence[AnomalyGroup]) -> list[Answer]:
    """Let the answer that leads to more records lead to a card of the first incident, where there is one."""
    first = {}
    for group in anomalies:
        first[group.section] = next((one.anchor for one in group.explanations if 1 in one.incidents), group.section)
    return [replace(answer, link=first.get(answer.link, answer.link)) for answer in found]


def _drawn(chart: DecisiveSeconds) -> Mapping[str, object]:
    return {
        **chart._asdict(),
        "story": chart.story.to_json(),
        "picture": sequence(chart.story, f"tip-{chart.number}", DRAWN_MAX),
    }


def _has_later_workers(anomalies: Sequence[AnomalyGroup]) -> bool:
    """Whether a value or an operation that the page names is of another worker than the first."""
    numbers = (row[name] for group in anomalies for _, row in group.records for name in ("value", "op"))
    return any(number is not None and number >= NUMBERS_PER_WORKER for number in numbers)


def _anchors(run: Run) -> dict[int, int]:
    """Return the number of each fault that the page lists → its index in the list, the first if two share it."""
    indices: dict[int, int] = {}
    for index, fault in enumerate(run.faults[:FAULTS_MAX]):
        if fault["fault"] is not None:
            indices.setdefault(fault["fault"], index)
    return indices


def _records(anomalies: Sequence[AnomalyGroup]) -> Mapping[int, list[tuple[str, list[tuple[str, str]]]]]:
    """Return the number of each incident → names of anomalies, with anchors and titles of those that are explained."""
    found: dict[int, list[tuple[str, list[tuple[str, str]]]]] = defaultdict(list)
    for group in anomalies:
        links: dict[int, list[tuple[str, str]]] = defaultdict(list)
        for explanation in group.explanations:
            for number in explanation.incidents:
                links[number].append((explanation.anchor, explanation.title))
        for number, named in links.items():
            found[number].append((group.name, named))
    return found


def _configuration(run: Run) -> list[tuple[str, str]]:
    """Return what is shown folded: title and text."""
    texts = [("Specification (spec.json)", run.spec), ("Schedule of faults (schedule.json)", run.schedule)]
    shown = []
    for title, content in texts:
        if content:
            text = json.dumps(content, indent=2, ensure_ascii=False)
            left = len(text) - CONFIGURATION_CHARACTERS
            cut = f"\n… {wording.count(left)} more characters in the file" if left > 0 else ""
            shown.append((title, text[:CONFIGURATION_CHARACTERS] + cut))
    definition = run.directory / "system.toml"
    if definition.is_file():
        text = definition.read_text(encoding="utf-8", errors="replace")
        shown.append(("Definition of the system under test (system.toml)", text[:CONFIGURATION_CHARACTERS]))
    return shown


@functools.cache
def _environment() -> jinja2.Environment:
    environment = templating.environment()
    environment.filters.update(
        moment=wording.moment,
        duration=wording.duration,
        node=wording.node,
        nodes=wording.nodes,
        family=fault_family,
        meaning=meaning,
        role=fault_role,
        parameters=lambda fault: {
            key: value for key, value in fault_parameters(fault).items() if key != "role" and value != ""
        },
    )
    environment.globals.update(
        partition_name=wording.partition_name,
        malformed=MALFORMED,
        incidents_of_fault=incidents_of_fault,
        recipe_of=recipe_of,
        unfired=unfired,
    )
    return environment
