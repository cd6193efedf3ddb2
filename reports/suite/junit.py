"""Writes a suite as a JUnit file for continuous integration."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from reports.suite.loaded import LoadedSuite, SuiteCell

_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd]")


def junit(suite: LoadedSuite) -> str:
    """Return the file: a case for each run, and one for the canary."""
    root = ET.Element("testsuites")
    cases = [_case(cell) for cell in suite.cells]
    cases.insert(0, _canary(suite))
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


def _canary(suite: LoadedSuite) -> ET.Element:
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
