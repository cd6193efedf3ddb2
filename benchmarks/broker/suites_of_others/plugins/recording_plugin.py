"""pytest plugin: writes each outcome to a file at once, and leaves out tests that the file has already.

It stands alone, because it is loaded into the interpreter and beside the tests of another project. Environment:
HARROW_OUTCOMES, the file; HARROW_NEEDS, the fixture of a broker: tests without it are left out.
Each line of the file is JSON: `collected` (test ids), `broken` and `text` (a module that does not load), `started`, or
`ended`, `status`, `seconds`, `text`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest


class Recorder:
    """Writes what happens, a line each."""

    def __init__(self, path: Path, needed: str) -> None:
        self._needed = needed
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        self._known = {line["started"] for line in lines if "started" in line}
        self._file = path.open("a")
        self._reports: list[pytest.TestReport] = []

    def _write(self, **line: object) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(broken=report.nodeid, text=_said(report))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        wanted = [item for item in items if not self._needed or self._needed in getattr(item, "fixturenames", ())]
        self._write(collected=[item.nodeid for item in wanted])
        left = [item for item in wanted if item.nodeid not in self._known]
        config.hook.pytest_deselected(items=[item for item in items if item not in left])
        items[:] = left

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._reports.clear()
        self._write(started=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(report)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        bad = next((report for report in self._reports if report.failed), None)
        skipped = next((report for report in self._reports if report.skipped), None)
        status = "failed" if bad else "skipped" if skipped else "passed"
        seconds = sum(report.duration for report in self._reports)
        text = _said(bad or skipped) if bad or skipped else ""
        self._write(ended=nodeid, status=status, seconds=seconds, text=text)


def _said(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why a test failed or was skipped, in a line or a few."""
    why = report.longrepr
    if isinstance(why, tuple):
        return str(why[2])
    crash = getattr(why, "reprcrash", None)
    if crash is not None:
        return crash.message
    return (str(why).strip().splitlines() or [report.outcome])[-1]


def pytest_configure(config: pytest.Config) -> None:
    path, needed = Path(os.environ["HARROW_OUTCOMES"]), os.environ.get("HARROW_NEEDS", "")
    config.pluginmanager.register(Recorder(path, needed), "harrow-recorder")
