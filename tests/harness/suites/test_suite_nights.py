"""A suite over two nights: new, fixed, flaky and known failures; what a known failure must not excuse."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest

from harness.commands import cli
from harness.run.stopping import Stop
from harness.store.run_directories import make_run_directory
from harness.suites import cell_runner
from harness.suites.cell_runner import ProcessResult
from harness.suites.definition import load
from harness.suites.fail_on import FailOn
from harness.suites.nights import compare_with_earlier
from harness.suites.runner import SuiteHooks, SuiteOutcome, run_suite
from harness.suites.suite_state import Night, SuiteState, resume_or_start
from harness.terminal.exits import ExitStatus
from history.anomalies import CATALOGUE
from reports.suite import render_suite
from reports.suite.cell import Change, SuiteCell
from reports.suite.known import KnownFailure
from reports.suite.loaded import LoadedSuite, load_suite
from tests.support.html_check import Page

HEAD = """
name = "n"
budget = "1h"
reruns = 2
[canary]
environment = "simulation"
faults = "all"
settings = { flaws = ["ack-before-replication"] }
[configurations.a]
[configurations.b]
brokers = 5
[[matrix]]
environments = ["local"]
configurations = ["a", "b"]
faults = ["kill", "pause"]
"""
SWEEP = '[[matrix]]\nenvironments = ["simulation"]\nconfigurations = ["a"]\nfaults = ["all"]\nseeds = "1:9"\n'
KNOWN = """
[[known-failures]]
configurations = ["b"]
faults = ["pause"]
anomalies = ["lost-acked-write"]
owner = "storage <team>"
expires = 2026-01-05
reason = "a <bug> of ours"
"""
LOST, STALE = "lost-acked-write", "lost-read"
FIRST, SECOND = datetime(2026, 1, 4, 2, tzinfo=UTC), datetime(2026, 1, 5, 2, tzinfo=UTC)
THIRD = datetime(2026, 1, 6, 2, tzinfo=UTC)
Script = Mapping[str, Sequence[str]]
"""What the attempts of `CONFIGURATION FAULTS` show: an anomaly, "" or "crash"; the last for all further ones."""


class Nights:
    """Nights of a suite with a script of what its runs show."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.file = directory / "suite.toml"
        self.store = directory / "store"
        self.script: Script = {}
        self.swept: Sequence[tuple[int, str]] = ()
        self.ran: list[str] = []
        monkeypatch.setattr(cell_runner, "run_process", self._run)
        monkeypatch.setattr(cell_runner, "require_possible", lambda cell: None)

    def _shown(self, arguments: Sequence[str]) -> str:
        configuration = "b" if "--brokers" in arguments else "a"
        name = f"{configuration} {'pause' if 'pause' in arguments else 'kill'}"
        self.ran.append(name)
        shown = self.script.get(name, [""])
        return shown[min(self.ran.count(name), len(shown)) - 1]

    def _run(self, arguments: Sequence[str], directory: Path, limit_s: float, stop: Stop) -> ProcessResult:
        if arguments[0] == "sim":
            failures = [
                {"seed": seed, "findings": [{"what": name}], "stored": None}
                for seed, name in ([(1, "P-12")] if "--flaw" in arguments else self.swept)
            ]
            counted = [failure["findings"][0]["what"] for failure in failures]
            by_property = {name: counted.count(name) for name in counted}
            out = {"seeds": 9, "failed_by_property": by_property, "failures": failures}
            return ProcessResult(int(bool(failures)), 1.0, json.dumps(out), ())
        shown = self._shown(arguments)
        if shown == "crash":
            return ProcessResult(4, 1.0, "", ("the node ended",))
        name, store = (arguments[arguments.index(flag) + 1] for flag in ("--name", "--store"))
        run = make_run_directory(Path(store), name, 1)
        (run / "shown").write_text(shown)
        return ProcessResult(0, 1.0, "", ())

    def judge(self, run: Path) -> SimpleNamespace:
        shown = (run / "shown").read_text()
        (run / "report.html").write_text("a report")
        broken = {shown: SimpleNamespace(violations=3)} if shown else {}
        counts = {"sends_ok": 1000, "faults_took_hold": 2}
        reasons = (f"{shown} <was> shown",) if shown else ()
        return SimpleNamespace(
            verdict="invalid" if shown else "valid", reasons=reasons, counts=counts, anomalies=broken
        )

    def play(
        self,
        now: datetime,
        script: Script,
        text: str = HEAD + KNOWN,
        *,
        since: str | None = None,
        fail_on: FailOn = FailOn.ALL,
        night: Night = Night(),  # noqa: B008 (a value)
    ) -> tuple[SuiteState, SuiteOutcome, LoadedSuite]:
        self.script = script
        self.ran.clear()
        self.file.write_text(text)
        suite = load(self.file)
        state = resume_or_start(self.store, suite, fresh=False, now=now, night=night)
        compare_with_earlier(state.directory, since)
        outcome = run_suite(suite, state, SuiteHooks(self.judge, Stop(), lambda *_: None, render_suite), fail_on)
        return state, outcome, load_suite(state.directory)


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nights:
    return Nights(tmp_path, monkeypatch)


def names(suite: LoadedSuite) -> dict[Change, list[str]]:
    return {
        change: [f"{cell.configuration} {cell.faults}" for cell in cells]
        for change, cells in suite.changes.items()
        if cells
    }


def cell(suite: LoadedSuite, configuration: str, faults: str) -> SuiteCell:
    (found,) = [one for one in suite.cells if (one.configuration, one.faults) == (configuration, faults)]
    return found


NIGHT_ONE: Script = {"a kill": [LOST], "b pause": [LOST]}
NIGHT_TWO: Script = {"a pause": [LOST], "b kill": [LOST, "", LOST], "b pause": [LOST]}
"""One fixed, one new, one flaky, one known."""


def test_the_first_screen_says_what_is_new_fixed_flaky_and_known(nights: Nights) -> None:
    nights.play(FIRST, NIGHT_ONE, night=Night(build="one"))
    state, outcome, suite = nights.play(SECOND, NIGHT_TWO, night=Night(build="two <b>"))
    assert names(suite) == {"new": ["a pause"], "flaky": ["b kill"], "fixed": ["a kill"], "known": ["b pause"]}
    assert outcome.status == ExitStatus.ANOMALIES
    page = Page(state.directory / "index.html")
    first = page.source[page.source.index("<h1>") : page.source.index("<h2>Canary")]
    for words in ("1 new", "1 flaky", "0 still failing", "1 fixed", "1 known", "Since 2026-01-04 02:00 UTC, build one"):
        assert words in first
    for words in (
        "failed 2 of 3 times",
        "passed 3 of 3 times",
        "storage &lt;team&gt;, until 2026-01-05: a &lt;bug&gt;",
    ):
        assert words in first
    assert len(re.findall("<a ", first)) >= 4, "each has a link to its report"
    assert "two <b>" not in page.source


def test_a_flaky_run_stays_a_failure_and_keeps_all_its_reports(nights: Nights) -> None:
    state, outcome, suite = nights.play(FIRST, {"a kill": ["", ""], "b kill": [LOST, "", ""]}, HEAD)
    flaky = cell(suite, "b", "kill")
    assert (flaky.state, flaky.flaky, flaky.failures, len(flaky.attempts)) == ("invalid", True, 1, 3)
    assert len({attempt.page for attempt in flaky.attempts} - {None}) == 3
    assert len({attempt.log for attempt in flaky.attempts}) == 3
    assert nights.ran.count("a kill") == 1, "what passes is not run again without a cause"
    assert outcome.status == ExitStatus.ANOMALIES
    assert suite.verdict == "invalid"
    failure = cases(state)["local.b kill, seed 1"].find("failure")
    assert failure is not None
    assert "failed 1 of 3 times" in failure.get("message", "")


def test_what_fails_each_time_is_not_flaky(nights: Nights) -> None:
    _, _, suite = nights.play(FIRST, {"b kill": [LOST, "crash", LOST]}, HEAD)
    assert names(suite) == {"new": ["b kill"]}
    assert cell(suite, "b", "kill").tried == "failed 3 of 3 times"


def test_what_failed_last_night_is_not_fixed_by_one_lucky_attempt(nights: Nights) -> None:
    nights.play(FIRST, {"a kill": [LOST]}, HEAD)
    _, outcome, suite = nights.play(SECOND, {"a kill": ["", "", LOST]}, HEAD)
    assert names(suite) == {"flaky": ["a kill"]}
    assert cell(suite, "a", "kill").tried == "failed 1 of 3 times"
    assert outcome.status == ExitStatus.ANOMALIES


def test_a_sweep_is_not_run_again_since_its_seeds_decide_it(nights: Nights) -> None:
    nights.swept = [(3, "P-12")]
    _, _, suite = nights.play(FIRST, {}, HEAD + SWEEP)
    assert cell(suite, "a", "all").attempts == ()
    assert cell(suite, "a", "all").change == "new"


# --- the exit status -------------------------------------------------------------------------------------------------


def test_only_what_is_new_decides_if_asked(nights: Nights) -> None:
    nights.play(FIRST, {"a kill": [LOST], "b kill": [LOST, ""]}, HEAD)
    _, outcome, suite = nights.play(SECOND, {"a kill": [LOST], "b kill": [LOST, ""]}, HEAD, fail_on=FailOn.NEW)
    assert (outcome.status, suite.verdict) == (ExitStatus.VALID, "invalid")
    _, outcome, _ = nights.play(THIRD, {"a kill": [LOST], "a pause": ["crash"]}, HEAD, fail_on=FailOn.NEW)
    assert outcome.status == ExitStatus.FAILED, "a new crash"


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [
        ([STALE], [LOST], "new"),
        ([LOST], [STALE], "still"),
        ([LOST], [LOST, STALE], "still"),
        ([STALE], [STALE, LOST], "new"),
        ([LOST], ["crash"], "new"),
        (["crash"], [STALE], "new"),
        (["crash"], ["crash"], "still"),
    ],
)
def test_only_a_graver_anomaly_of_a_failing_run_is_new(
    nights: Nights, before: Sequence[str], now: Sequence[str], change: Change
) -> None:
    assert list(CATALOGUE).index(LOST) < list(CATALOGUE).index(STALE)
    nights.play(FIRST, {"a kill": before}, HEAD)
    _, outcome, suite = nights.play(SECOND, {"a kill": now}, HEAD, fail_on=FailOn.NEW)
    assert names(suite) == {change: ["a kill"]}
    assert (outcome.status == ExitStatus.VALID) is (change == "still")


def test_another_property_of_a_sweep_is_new(nights: Nights) -> None:
    nights.swept = [(3, "P-12")]
    nights.play(FIRST, {}, HEAD + SWEEP)
    nights.swept = [(3, "P-12"), (4, "P-13")]
    _, _, suite = nights.play(SECOND, {}, HEAD + SWEEP)
    assert names(suite) == {"new": ["a all"]}


def test_everything_is_new_in_the_first_night(nights: Nights) -> None:
    _, outcome, _ = nights.play(FIRST, {"a kill": [LOST]}, HEAD, fail_on=FailOn.NEW)
    assert outcome.status == ExitStatus.ANOMALIES


def test_a_flaky_run_that_passed_before_is_new(nights: Nights) -> None:
    nights.play(FIRST, {}, HEAD)
    _, outcome, suite = nights.play(SECOND, {"a kill": [LOST, ""]}, HEAD, fail_on=FailOn.NEW)
    assert names(suite) == {"flaky": ["a kill"]}
    assert "new tonight" in cell(suite, "a", "kill").notes
    assert outcome.status == ExitStatus.ANOMALIES


# --- known failures --------------------------------------------------------------------------------------------------


def test_a_known_failure_does_not_count_until_it_expires(nights: Nights) -> None:
    script = {"b pause": [LOST]}
    state, outcome, suite = nights.play(SECOND, script)
    assert (outcome.status, suite.verdict) == (ExitStatus.VALID, "valid"), "2026-01-05 is its last day"
    skipped = cases(state)["local.b pause, seed 1"].find("skipped")
    assert skipped is not None
    assert skipped.get("type") == "known"
    state, outcome, suite = nights.play(THIRD, script, fail_on=FailOn.NEW)
    assert (outcome.status, suite.verdict) == (ExitStatus.ANOMALIES, "invalid")
    line = "the known failure expired on 2026-01-05 and counts again (owner: storage <team>, a <bug> of ours)"
    assert line in cell(suite, "b", "pause").notes
    assert line.replace("<", "&lt;").replace(">", "&gt;") in Page(state.directory / "index.html").source
    assert line in cases(state)["local.b pause, seed 1"].find("failure").get("message")


@pytest.mark.parametrize(
    ("place", "shown", "why"),
    [
        ("b pause", [STALE], "another anomaly"),
        ("b pause", ["crash"], "a crash"),
        ("b pause", [LOST, "crash", LOST], "a crash in one of the attempts"),
        ("b kill", [LOST], "another fault"),
        ("a pause", [LOST], "another configuration"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_known_failure_excuses_nothing_else(nights: Nights, place: str, shown: Sequence[str], why: str) -> None:
    _, outcome, suite = nights.play(SECOND, {place: shown})
    assert outcome.status != ExitStatus.VALID, why
    assert not suite.changes["known"], why


@pytest.mark.parametrize(
    ("swept", "excused"),
    [
        ([(3, "P-12")], True),
        ([(3, "P-12"), (4, "P-12")], True),
        ([(3, "P-12"), (5, "P-12")], False),
        ([(3, "P-13")], False),
        ([], False),
    ],
)
def test_a_known_failure_of_some_seeds_excuses_no_others(
    nights: Nights, swept: Sequence[tuple[int, str]], excused: bool
) -> None:
    entry = KNOWN.replace('configurations = ["b"]\nfaults = ["pause"]', 'environments = ["simulation"]\nseeds = "3:4"')
    nights.swept = swept
    _, outcome, suite = nights.play(SECOND, {}, HEAD + SWEEP + entry.replace("lost-acked-write", "P-12"))
    assert bool(suite.changes["known"]) is excused
    assert (outcome.status == ExitStatus.VALID) is (excused or not swept)


def test_two_known_failures_may_account_for_one_run_together() -> None:
    from reports.suite.known import excuses

    day = SECOND.date()
    one, other = (KnownFailure((name,), "x", day) for name in (LOST, STALE))
    assert excuses([one, other], [LOST, STALE]) == (one, other)
    assert excuses([one, other], [LOST]) == (one,)
    assert excuses([one], [LOST, STALE]) == ()
    assert excuses([one], []) == ()


def test_a_known_failure_that_no_run_shows_is_named(nights: Nights) -> None:
    state, outcome, suite = nights.play(SECOND, {})
    assert outcome.status == ExitStatus.VALID
    assert [entry.owner for entry in suite.idle] == ["storage <team>"]
    assert "no run showed it" in (state.directory / "index.html").read_text()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            ("expires = 2026-01-05\n", ""),
            "known-failures 1.expires: expected the last day, like 2026-03-31, found none",
        ),
        (("2026-01-05", '"soon"'), "expected the last day, like 2026-03-31, found 'soon'"),
        (("2026-01-05", "2026-01-05T00:00:00Z"), "expected the last day, like 2026-03-31"),
        (('owner = "storage <team>"\n', ""), "known-failures 1.owner: expected a string, found none"),
        (('anomalies = ["lost-acked-write"]', "anomalies = []"), "expected the anomalies or properties"),
        (("lost-acked-write", "lost-acked-wrte"), "did you mean lost-acked-write?"),
        (("lost-acked-write", "P-12"), "found 'P-12'"),
        (('faults = ["pause"]', 'faults = ["isolate"]'), "known-failures 1.faults: expected one of kill, pause"),
        (('reason = "a', 'seeds = 7\nreason = "a'), "expected to be about a run of the suite, found none"),
        (("reruns = 2", "reruns = 21"), "reruns: expected a whole number from 0 to 20, found 21"),
    ],
)
def test_what_is_wrong_with_a_known_failure_is_one_line(
    change: tuple[str, str], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (HEAD + KNOWN).replace(*change)
    assert text != HEAD + KNOWN
    (tmp_path / "suite.toml").write_text(text)
    with pytest.raises(SystemExit) as ended:
        cli.main(["suite", str(tmp_path / "suite.toml"), "--store", str(tmp_path / "store")])
    line = capsys.readouterr().err
    assert ended.value.code == ExitStatus.USAGE
    assert expected in line
    assert line.count("\n") == 1


# --- which night, and what is left of it -----------------------------------------------------------------------------


def test_a_suite_is_compared_with_the_last_finished_night_or_the_named_one(nights: Nights) -> None:
    nights.play(FIRST, {"a kill": [LOST]}, HEAD)
    state, _, _ = nights.play(SECOND, {}, HEAD)
    broken = state.directory.with_name("20260105T120000Z")
    broken.mkdir()
    (broken / "suite.json").write_text("{")
    _, _, suite = nights.play(THIRD, {"a kill": [LOST]}, HEAD)
    assert suite.earlier.night == state.directory.name, "the damaged one is left out"
    assert names(suite) == {"new": ["a kill"]}
    assert [night.night[:8] for night in suite.earlier.nights] == ["20260104", "20260105"]
    assert cell(suite, "a", "kill").trail == ("invalid", "valid")
    _, _, suite = nights.play(THIRD.replace(hour=3), {"a kill": [LOST]}, HEAD, since="20260104")
    assert names(suite) == {"still": ["a kill"]}


@pytest.mark.parametrize("since", ["2027", "20260104T020000Z-x", ""])
def test_an_unknown_night_is_one_line(nights: Nights, since: str, capsys: pytest.CaptureFixture[str]) -> None:
    nights.play(FIRST, {}, HEAD)
    with pytest.raises(SystemExit) as ended:
        cli.main(["suite", str(nights.file), "--store", str(nights.store), "--since", since])
    assert ended.value.code == ExitStatus.USAGE
    line = capsys.readouterr().err
    assert line == (
        f"harrow: --since: expected a finished night of the suite n, one of 20260104T020000Z, found {since!r}\n"
    )
    assert len(list((nights.store / "suites" / "n").iterdir())) == 1, "nothing was started"


def test_a_failing_run_that_is_taken_out_of_the_suite_is_named(nights: Nights) -> None:
    nights.play(FIRST, {"b kill": [LOST]}, HEAD)
    state, _, suite = nights.play(SECOND, {}, HEAD.replace('configurations = ["a", "b"]', 'configurations = ["a"]'))
    assert list(suite.lost) == ["local · b · kill · seed 1"]
    assert "failed in that night, and was not run in this one" in (state.directory / "index.html").read_text()


def test_the_page_can_be_written_again_when_earlier_nights_are_gone(nights: Nights) -> None:
    first, _, _ = nights.play(FIRST, NIGHT_ONE)
    second, _, before = nights.play(SECOND, NIGHT_TWO)
    (first.directory / "suite.json").unlink()
    render_suite(second.directory)
    assert names(load_suite(second.directory)) == names(before)


# --- documents -------------------------------------------------------------------------------------------------------


def cases(state: SuiteState) -> dict[str, ET.Element]:
    root = ET.parse(state.directory / "junit.xml").getroot()
    return {f"{case.get('classname')} {case.get('name')}": case for case in root.iter("testcase")}


def test_junit_has_time_build_and_properties(nights: Nights) -> None:
    nights.play(FIRST, NIGHT_ONE, night=Night(build="one"))
    state, _, _ = nights.play(SECOND, NIGHT_TWO, night=Night(build="two\x00"))
    (suite,) = ET.parse(state.directory / "junit.xml").getroot()
    assert suite.get("timestamp") == "2026-01-05T02:00:00+00:00"
    properties = {each.get("name"): each.get("value") for each in suite.find("properties")}
    assert properties["build"] == "two�"
    assert properties["compared with build"] == "one"
    assert {name: properties[name] for name in ("new", "fixed", "flaky", "known", "still")} == {
        "new": "1",
        "fixed": "1",
        "flaky": "1",
        "known": "1",
        "still": "0",
    }
    flaky = {each.get("name"): each.get("value") for each in cases(state)["local.b kill, seed 1"].find("properties")}
    assert (flaky["change"], flaky["attempts"]) == ("flaky", "2 of 3 failed")


def test_links_are_absolute_where_a_base_is_given(nights: Nights) -> None:
    state, _, _ = nights.play(FIRST, NIGHT_ONE, night=Night(base="https://ci.example/job/7/"))
    summary = (state.directory / "summary.md").read_text()
    links = re.findall(r"\]\(([^)]*)\)", summary)
    assert links
    assert all(link.startswith("https://ci.example/job/7/runs/") for link in links)
    assert "https://ci.example/job/7/runs/" in cases(state)["local.a kill, seed 1"].find("failure").text
    assert "https" not in (state.directory / "index.html").read_text(), "the page moves with its directory"
    relative, _, _ = nights.play(SECOND, NIGHT_ONE)
    assert "](runs/" in (relative.directory / "summary.md").read_text()


def test_hostile_text_in_the_summary_stays_text(nights: Nights) -> None:
    text = (HEAD + KNOWN).replace("a <bug> of ours", "<img src=x> [a](javascript:b) `c` | d")
    state, _, _ = nights.play(SECOND, {"b pause": [LOST]}, text)
    summary = (state.directory / "summary.md").read_text()
    assert "\\<img src=x\\> \\[a\\](javascript:b) \\`c\\` \\| d" in summary


def test_a_base_that_is_no_address_is_refused(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    nights.file.write_text(HEAD)
    with pytest.raises(SystemExit) as ended:
        cli.main(["suite", str(nights.file), "--store", str(nights.store), "--base-url", "javascript:x"])
    assert ended.value.code == ExitStatus.USAGE
    assert "--base-url: expected an address like https://" in capsys.readouterr().err
