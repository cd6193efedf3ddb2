"""A suite from its first cell to its page, with fake processes: matrix, budget, canary, resumption."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from harness.commands import suite
from harness.run import judging
from harness.run.stopping import Stop
from harness.store.progress import ProgressFile
from harness.store.run_directories import make_run_directory
from harness.suites import cell_runner
from harness.suites.cell_runner import ProcessResult
from harness.suites.definition import Suite, load
from harness.suites.runner import OUT_OF_TIME, SuiteHooks, SuiteOutcome, run_suite
from harness.suites.suite_state import SuiteState, resume_or_start
from harness.terminal.console import RunProgress
from harness.terminal.exits import ExitStatus
from reports.suite import render_suite
from reports.suite.loaded import load_suite
from tests.support.html_check import Page

FILE = """
name = "s"
about = "What <it> is"
budget = "1h"
[canary]
environment = "simulation"
faults = "all"
seeds = ["1:2", "3:4"]
settings = { flaws = ["ack-before-replication"] }
[configurations.one]
[configurations.two]
brokers = 5
[[matrix]]
environments = ["local", "simulation"]
faults = ["kill", "all"]
seeds = 1
[[matrix]]
environments = ["ssh"]
configurations = ["one"]
faults = ["kill", "all"]
settings = { vms = 3 }
"""
LIE = {"seed": 1, "findings": [{"what": "P-12: lied"}], "stored": None}
FOUND = {"seeds": 2, "failed_by_property": {"P-12": 1}, "failures": [LIE]}
CLEAN = {"seeds": 1, "failed_by_property": {}, "failures": []}
Play = Callable[[list[str], Path], ProcessResult]


def ending(status: int, stdout: object = "", **more: object) -> ProcessResult:
    text = stdout if isinstance(stdout, str) else json.dumps(stdout)
    return ProcessResult(status, 2.0, text, ("the last line",), **more)


def well(arguments: list[str], directory: Path) -> ProcessResult:
    """The canary is found, everything else is fine."""
    if arguments[0] == "sim":
        return ending(ExitStatus.ANOMALIES, FOUND) if "--flaw" in arguments else ending(ExitStatus.VALID, CLEAN)
    name, store = (arguments[arguments.index(flag) + 1] for flag in ("--name", "--store"))
    make_run_directory(Path(store), name, 1)
    return ending(ExitStatus.VALID)


class Stage:
    """A suite with a script of what its processes do."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, text: str = FILE) -> None:
        self.file = directory / "suite.toml"
        self.file.write_text(text)
        self.store = directory / "store"
        self.stop = Stop()
        self.play: Play = well
        self.ran: list[list[str]] = []
        self.verdict = "valid"
        monkeypatch.setattr(cell_runner, "run_process", self._run)
        monkeypatch.setattr(cell_runner, "require_possible", self._require_possible)

    def _run(self, arguments: list[str], directory: Path, limit_s: float, stop: Stop) -> ProcessResult:
        self.ran.append(list(arguments))
        return self.play(list(arguments), directory)

    @staticmethod
    def _require_possible(cell) -> None:
        if cell.environment == "ssh":
            raise cell_runner.Skipped("no machines <here>")

    def judge(self, run: Path):
        (run / "report.html").write_text("a report")
        counts = {"sends_ok": 1234, "faults_took_hold": 2}
        broken = {"lost-acked-write": SimpleNamespace(violations=7)} if self.verdict == "invalid" else {}
        return SimpleNamespace(verdict=self.verdict, reasons=("why & how",), counts=counts, anomalies=broken)

    @property
    def suite(self) -> Suite:
        return load(self.file)

    def perform(self, *, fresh: bool = False, jobs: int = 1) -> tuple[SuiteState, SuiteOutcome]:
        state = resume_or_start(self.store, self.suite, fresh=fresh)
        hooks = SuiteHooks(self.judge, self.stop, lambda *_: None, render_suite)
        return state, run_suite(self.suite, state, hooks, jobs=jobs)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(tmp_path, monkeypatch)


def cases(state: SuiteState) -> dict[str, ET.Element]:
    root = ET.parse(state.directory / "junit.xml").getroot()
    return {f"{case.get('classname')} {case.get('name')}": case for case in root.iter("testcase")}


def test_a_suite_runs_every_cell_and_writes_three_reports(stage: Stage) -> None:
    state, ended = stage.perform()
    assert ended.status == ExitStatus.VALID
    assert [result.verdict for result in ended.results].count("valid") == 8
    assert [result.verdict for result in ended.results].count("skipped") == 2
    suite = load_suite(state.directory)
    assert (suite.verdict, suite.canary_found, suite.ended) == ("valid", True, "finished")
    page = Page(state.directory / "index.html").source
    for text in ("What &lt;it&gt; is", "no machines &lt;here&gt;", "-003-local-one-1-seed-1/report.html", "1,234"):
        assert text in page
    found = cases(state)
    assert len(found) == 11
    assert found["ssh.one kill, seed 1"].find("skipped").get("message") == "no machines <here>"
    assert found["local.one kill, seed 1"].find("failure") is None
    summary = (state.directory / "summary.md").read_text()
    assert "| two | [✓](" in summary
    assert "Canary: found" in summary


def test_the_canary_is_tried_until_it_is_found(stage: Stage) -> None:
    def second(arguments: list[str], directory: Path) -> ProcessResult:
        if "--flaw" in arguments and "1:2" in arguments:
            return ending(ExitStatus.VALID, CLEAN)
        return well(arguments, directory)

    stage.play = second
    _, ended = stage.perform()
    assert ended.canary_found
    assert ended.status == ExitStatus.VALID
    assert sum("--flaw" in arguments for arguments in stage.ran) == 2


def test_a_suite_that_does_not_find_its_canary_fails(stage: Stage) -> None:
    def blind(arguments: list[str], directory: Path) -> ProcessResult:
        return ending(ExitStatus.VALID, CLEAN) if arguments[0] == "sim" else well(arguments, directory)

    stage.play = blind
    state, ended = stage.perform()
    assert ended.status == ExitStatus.FAILED
    assert load_suite(state.directory).verdict == "unknown"
    assert "prove nothing" in (state.directory / "index.html").read_text()
    assert cases(state)["canary a planted flaw is found"].find("failure") is not None


def test_the_wrong_anomaly_is_no_canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = FILE.replace('seeds = ["1:2", "3:4"]', 'anomaly = "P-9"')
    _, ended = Stage(tmp_path, monkeypatch, text).perform()
    assert not ended.canary_found


def test_a_report_that_cannot_be_written_costs_no_verdict(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(run: Path) -> Path:
        raise OSError(28, "No space left on device", str(run / "report.html"))

    monkeypatch.setattr("reports.render", full)
    monkeypatch.setattr(judging.WarmSpark, "start", lambda self: None)
    monkeypatch.setattr(judging, "results_of", lambda runs, spark: [stage.judge(run) for run in runs])
    state, output = resume_or_start(stage.store, stage.suite, fresh=False), io.StringIO()
    with RunProgress(Console(file=output)) as progress, ProgressFile(stage.store, "suite", "s") as file:
        ended = suite._run_suite(stage.suite, state, progress, file, "harrow heal")
    assert ended.status == ExitStatus.VALID
    assert [result.verdict for result in ended.results].count("valid") == 8
    notes = [line for line in output.getvalue().splitlines() if "no report: OSError" in line]
    assert len(notes) == 4
    assert "No space left on device" in notes[0]
    assert "see `harrow report " in notes[0]


def test_an_anomaly_outweighs_everything(stage: Stage) -> None:
    stage.verdict = "invalid"
    state, ended = stage.perform()
    assert ended.status == ExitStatus.ANOMALIES
    failure = cases(state)["local.one kill, seed 1"].find("failure")
    assert failure.get("message") == "why & how"
    assert "harrow run --seed 1" in failure.text
    assert "lost-acked-write" in (state.directory / "index.html").read_text()


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda: ending(-9), "the process was killed by signal 9"),
        (lambda: ending(4), "the process ended with status 4"),
        (lambda: ending(0), "the process succeeded but stored no run"),
        (lambda: ending(3, overdue=True), "the process was ended after its limit of 360 s"),
    ],
    ids=["killed", "failed", "silent", "overdue"],
)
def test_a_run_that_crashes_is_reported_and_the_others_continue(
    stage: Stage, made: Callable[[], ProcessResult], why: str
) -> None:
    def one_crashes(arguments: list[str], directory: Path) -> ProcessResult:
        return made() if "--brokers" in arguments and "kill" in arguments else well(arguments, directory)

    stage.play = one_crashes
    state, ended = stage.perform()
    assert ended.status == ExitStatus.FAILED
    crashed = [result for result in ended.results if result.verdict == "crashed"]
    assert len(crashed) == 1
    assert crashed[0].reasons[0] == why
    assert [result.verdict for result in ended.results].count("valid") == 7
    assert cases(state)["local.two kill, seed 1"].find("error").get("message") == why


def test_a_history_that_breaks_the_checkers_takes_no_other_along(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(run: Path) -> None:
        raise ValueError("no such\ncolumn")

    monkeypatch.setattr(stage, "judge", broken)
    _, ended = stage.perform()
    reasons = [result.reasons for result in ended.results if result.verdict == "crashed"]
    assert reasons == [("the checkers failed: no such column",)] * 4


def test_output_that_is_no_answer_is_a_crash(stage: Stage) -> None:
    def garbled(arguments: list[str], directory: Path) -> ProcessResult:
        return ending(4, "Traceback") if arguments[0] == "sim" else well(arguments, directory)

    stage.play = garbled
    _, ended = stage.perform()
    assert [result.verdict for result in ended.results].count("crashed") == 4


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_does_not_fit_into_the_budget_is_skipped_and_the_suite_undecided(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    monkeypatch.setattr("harness.suites.runner.time", SimpleNamespace(monotonic=lambda: 1_500.0 * len(stage.ran)))
    state, ended = stage.perform(jobs=jobs)
    assert ended.status == ExitStatus.UNKNOWN
    late = [result for result in ended.results if OUT_OF_TIME in result.reasons]
    assert len(late) == 8, "of 3,600 s the canary and two runs took 1,500 each"
    assert load_suite(state.directory).verdict == "unknown"


def test_an_interrupted_suite_resumes_and_repeats_nothing(stage: Stage) -> None:
    def until_the_third(arguments: list[str], directory: Path) -> ProcessResult:
        if len(stage.ran) == 4:
            stage.stop.request()
            return ending(3, stopped=True)
        return well(arguments, directory)

    stage.play = until_the_third
    state, ended = stage.perform()
    assert ended.interrupted
    assert ended.status == ExitStatus.UNKNOWN
    assert len(ended.results) == 2
    assert load_suite(state.directory).sentence.endswith("interrupted.")
    stage.play, stage.stop, first = well, Stop(), len(stage.ran)
    again, ended = stage.perform()
    assert again.directory == state.directory
    assert again.resumed
    assert ended.status == ExitStatus.VALID
    assert len(ended.results) == 10
    repeated = [arguments for arguments in stage.ran[first:] if arguments in stage.ran[: first - 1]]
    assert not repeated
    assert stage.ran[first] == stage.ran[first - 1], "but for the run that was interrupted"


def test_a_finished_suite_starts_again_and_so_does_a_changed_one(stage: Stage) -> None:
    first, _ = stage.perform()
    head = json.loads((first.directory / "suite.json").read_text())
    assert head["ended"] == "finished"
    (first.directory / "suite.json").write_text(json.dumps({**head, "ended": "interrupted"}))
    assert resume_or_start(stage.store, stage.suite, fresh=False).directory == first.directory
    stage.file.write_text(stage.file.read_text() + "# another\n")
    (first.directory).rename(first.directory.with_name("20200101T000000Z"))
    assert not resume_or_start(stage.store, stage.suite, fresh=False).resumed


def test_the_page_of_a_suite_that_has_just_begun_is_a_page(stage: Stage) -> None:
    state = resume_or_start(stage.store, stage.suite, fresh=True)
    assert "still going on" in Page(render_suite(state.directory)).text
    assert cases(state)["canary a planted flaw is found"].find("skipped") is not None


def test_text_that_is_no_xml_is_written_all_the_same(stage: Stage) -> None:
    stage.play = lambda *_: ProcessResult(4, 1.0, "", ("\x1b[31mred\x00",))
    state, _ = stage.perform()
    message = cases(state)["local.one kill, seed 1"].find("error").text
    assert "[31mred" in message
    assert "\x1b" not in message
