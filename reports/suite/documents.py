"""Writes a suite as a page, as a JUnit file for continuous integration, and as a summary in Markdown."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import NamedTuple
from xml.etree import ElementTree as ET

import jinja2

from common import wording
from reports import templating
from reports.rules import with_rules
from reports.suite.loaded import GRAVEST, STATES, LoadedSuite, SuiteCell

_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd]")
_MARKS = {"valid": "✓", "invalid": "✗", "unknown": "?", "crashed": "!", "skipped": "-", "waiting": "·"}


class MatrixRow(NamedTuple):
    """One configuration; for each column its runs, by seed."""

    configuration: str
    cells: Sequence[Sequence[SuiteCell]]


class Matrix(NamedTuple):
    """One environment."""

    environment: str
    columns: Sequence[str]  # faults
    rows: Sequence[MatrixRow]


def tables(suite: LoadedSuite) -> Sequence[Matrix]:
    """Return the tables in the order in which the suite names its environments."""
    return [_table(environment, suite.cells) for environment in dict.fromkeys(cell.environment for cell in suite.cells)]


def _table(environment: str, cells: Sequence[SuiteCell]) -> Matrix:
    own = [cell for cell in cells if cell.environment == environment]
    columns = list(dict.fromkeys(cell.faults for cell in own))
    rows = []
    for configuration in dict.fromkeys(cell.configuration for cell in own):
        mine = [cell for cell in own if cell.configuration == configuration]
        rows.append(MatrixRow(configuration, [[cell for cell in mine if cell.faults == faults] for faults in columns]))
    return Matrix(environment, columns, rows)


def page(suite: LoadedSuite) -> str:
    """Return the page; it is self-contained, except for the reports that it links to."""
    troubles = [cell for cell in suite.cells if cell.state not in ("valid", "waiting", "skipped")]
    skipped: dict[str, list[str]] = {}
    for cell in suite.cells:
        if cell.state == "skipped":
            skipped.setdefault("; ".join(cell.reasons), []).append(cell.title)
    template = _environment().get_template("suite/page.html")
    shown = template.render(
        suite=suite,
        tables=tables(suite),
        states=STATES,
        troubles=sorted(troubles, key=lambda cell: GRAVEST.index(cell.state)),
        skipped=skipped,
    )
    return with_rules(shown)


@functools.cache
def _environment() -> jinja2.Environment:
    environment = templating.environment()
    environment.filters["seconds"] = lambda seconds: wording.duration(round(seconds * 1e9))
    return environment


def junit(suite: LoadedSuite) -> str:
    """Return the file: a case for each run, and one for the canary."""
    root = ET.Element("testsuites")
    cases = [_case(cell) for cell in suite.cells]
    cases.insert(0, _canary_case(suite))
    counted = {name: sum(case.find(name) is not None for case in cases) for name in ("failure", "error", "skipped")}
    whole = ET.SubElement(
        root,
        "testsuite",
        name=suite.name,
        tests=str(len(cases)),
        failures=str(counted["failure"]),
        errors=str(counted["error"]),
        skipped=str(counted["skipped"]),
        time=f"{suite.spent_s:.1f}",
    )
    whole.extend(cases)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(cell: SuiteCell) -> ET.Element:
    case = ET.Element(
        "testcase",
        classname=_clean(f"{cell.environment}.{cell.configuration}"),
        name=_clean(f"{cell.faults}, {cell.seeds}"),
        time=f"{cell.seconds:.1f}",
    )
    element = {"invalid": "failure", "unknown": "error", "crashed": "error", "skipped": "skipped", "waiting": "skipped"}
    if cell.state in element:
        message = cell.reasons[0] if cell.reasons else "not run yet"
        result = ET.SubElement(case, element[cell.state], message=_clean(message), type=cell.state)
        result.text = _clean(
            "\n".join([*cell.reasons, f"report: {cell.link}" if cell.link else "", cell.again]).strip()
        )
    return case


def _canary_case(suite: LoadedSuite) -> ET.Element:
    spent = sum(cell.seconds for cell in suite.canary)
    case = ET.Element("testcase", classname="canary", name="a planted flaw is found", time=f"{spent:.1f}")
    if suite.canary_found is None:
        ET.SubElement(case, "skipped", message="not run yet")
    elif not suite.canary_found:
        reasons = [f"{cell.seeds}: {cell.state} {'; '.join(cell.reasons)}" for cell in suite.canary]
        failure = ET.SubElement(case, "failure", message="the flaw was not found", type="canary")
        failure.text = _clean("\n".join(reasons))
    return case


def _clean(text: str) -> str:
    return _NOT_IN_XML.sub("�", text)


def markdown(suite: LoadedSuite) -> str:
    """Return the summary: the verdict, the matrix, and a line for everything that is not valid."""
    lines = [f"# {suite.name}: {suite.verdict}", "", suite.sentence.capitalize(), ""]
    lines += [f"Canary: {_canary_text(suite)}", ""]
    for table in tables(suite):
        lines += [f"## {table.environment}", "", f"| | {' | '.join(_text(faults) for faults in table.columns)} |"]
        lines.append(f"|---|{'---|' * len(table.columns)}")
        for row in table.rows:
            marks = ["".join(_mark(cell) for cell in cells) for cells in row.cells]
            lines.append(f"| {_text(row.configuration)} | {' | '.join(marks)} |")
        lines.append("")
    listed = sorted(
        (cell for cell in suite.cells if cell.state not in ("valid", "waiting")),
        key=lambda cell: GRAVEST.index(cell.state),
    )
    for cell in listed:
        where = f" ([{'report' if cell.page else 'log'}]({cell.link}))" if cell.link else ""
        lines.append(f"- **{cell.state}** {_text(cell.title)}{where}: {_text('; '.join(cell.reasons))}")
    legend = ", ".join(f"{mark} {state}" for state, mark in _MARKS.items())
    return "\n".join([*lines, "", f"({legend})", ""])


def _canary_text(suite: LoadedSuite) -> str:
    if suite.canary_found is None:
        return "not run yet"
    return "found" if suite.canary_found else "**not found**"


def _mark(cell: SuiteCell) -> str:
    mark = _MARKS[cell.state]
    return f"[{mark}]({cell.link})" if cell.link else mark


def _text(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
