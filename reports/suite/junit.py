"""Writes a suite as a JUnit file, which services for continuous integration show."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from xml.etree import ElementTree as ET

from reports.suite.cell import SuiteCell
from reports.suite.links import linked
from reports.suite.loaded import LoadedSuite, night_time

_NOT_IN_XML: Final = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd]")
_ELEMENTS: Final = {
    "invalid": "failure",
    "unknown": "error",
    "crashed": "error",
    "skipped": "skipped",
    "waiting": "skipped",
}


def junit(suite: LoadedSuite) -> str:
    """Return the file: a case for each run, and one for the canary.

    A known failure is a skipped case, as an expected failure is elsewhere; a flaky run is a failed one.
    """
    root = ET.Element("testsuites")
    cases = [_canary_case(suite), *(_case(cell, suite) for cell in suite.cells)]
    counted = {name: sum(case.find(name) is not None for case in cases) for name in ("failure", "error", "skipped")}
    whole = ET.SubElement(
        root,
        "testsuite",
        name=_clean(suite.name),
        tests=str(len(cases)),
        failures=str(counted["failure"]),
        errors=str(counted["error"]),
        skipped=str(counted["skipped"]),
        time=f"{suite.spent_s:.1f}",
        timestamp=night_time(suite.night).isoformat(),
    )
    if "host" in suite.machine:
        whole.set("hostname", _clean(suite.machine["host"]))
    _add_properties(whole, _of_suite(suite))
    whole.extend(cases)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _of_suite(suite: LoadedSuite) -> Iterable[tuple[str, str]]:
    yield "build", suite.build
    yield "night", suite.night
    yield "verdict", suite.verdict
    yield "compared with", suite.earlier.night
    yield "compared with build", suite.earlier.build
    yield from ((change, str(len(cells))) for change, cells in suite.changes.items())
    yield from suite.machine.items()


def _of_case(cell: SuiteCell) -> Iterable[tuple[str, str]]:
    yield "seeds", cell.seeds
    yield "state", cell.state
    yield "change", cell.change or ""
    yield "attempts", f"{cell.failures} of {len(cell.attempts)} failed" if cell.attempts else ""
    yield "owner", ", ".join(dict.fromkeys(entry.owner for entry in (*cell.known, *cell.expired)))
    yield from ((name, str(number)) for name, number in cell.counts.items())


def _add_properties(parent: ET.Element, named: Iterable[tuple[str, str]]) -> None:
    given = [(name, value) for name, value in named if value]
    properties = ET.SubElement(parent, "properties")
    for name, value in given:
        ET.SubElement(properties, "property", name=_clean(name), value=_clean(value))


def _case(cell: SuiteCell, suite: LoadedSuite) -> ET.Element:
    case = ET.Element(
        "testcase",
        classname=_clean(f"{cell.environment}.{cell.configuration}"),
        name=_clean(f"{cell.faults}, {cell.seeds}"),
        time=f"{cell.seconds:.1f}",
    )
    _add_properties(case, _of_case(cell))
    if cell.state not in _ELEMENTS:
        return case
    kind, name = ("known", "skipped") if cell.known else (cell.state, _ELEMENTS[cell.state])
    reason = cell.reasons[0] if cell.reasons else "not run yet"
    result = ET.SubElement(case, name, message=_clean("; ".join((*cell.notes, reason))), type=kind)
    report = f"report: {linked(cell.link, suite.base)}" if cell.link else ""
    attempts = [
        f"attempt {number}: {one.state}{f', {linked(one.link, suite.base)}' if one.link else ''}"
        for number, one in enumerate(cell.attempts, 1)
    ]
    result.text = _clean("\n".join([*cell.notes, *cell.reasons, *attempts, report, cell.again]).strip())
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
