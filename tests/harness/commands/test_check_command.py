"""`harrow check` of histories that other tools wrote, as a user calls it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from checkers.verdict.verdict import RunResult
from harness.commands import cli
from harness.terminal.exits import ExitStatus

GOOD = (
    "{:process 0, :type :invoke, :f :write, :value 3}\n{:process 0, :type :ok, :f :write, :value 3}\n"
    "{:process 1, :type :invoke, :f :read, :value nil}\n{:process 1, :type :ok, :f :read, :value 3}\n"
)
BAD = GOOD.replace(":read, :value 3", ":read, :value 4")


def harrow(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    return int(ended.value.code or 0)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "good.edn").write_text(GOOD)
    (tmp_path / "bad.edn").write_text(BAD)
    return str(tmp_path / "good.edn"), str(tmp_path / "bad.edn")


def test_each_file_has_one_object_of_json(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert harrow("check", "--json", *files) == ExitStatus.ANOMALIES
    good, bad = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert set(good) == {"file", "verdict", "kinds", "counts", "reason"}
    assert (good["file"], good["verdict"], good["kinds"]) == (files[0], "valid", [])
    assert (bad["file"], bad["verdict"], bad["kinds"]) == (files[1], "invalid", ["not-linearizable"])


def test_people_get_one_line_a_file(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert harrow("check", files[0]) == ExitStatus.VALID
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"valid    {files[0]}  register: ")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--model spaceship", "expected a model, one of append-only-log, cas-register, counter, "),
        (
            "--format runes",
            "expected a format, one of jepsen-edn, jepsen-log, porcupine, json-lines, store, found 'runes'",
        ),
        ("--profile elle", "expected a profile, one of jepsen-kafka, jepsen-kafka-wr, found 'elle'"),
        ("--initial {", "--initial: expected a JSON value, found {"),
        ("--model counter --initial [1]", "no initial state of counter"),
    ],
)
def test_an_unknown_name_is_a_usage_error(
    arguments: str, expected: str, files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert harrow("check", *arguments.split(), files[0]) == ExitStatus.USAGE
    output = capsys.readouterr()
    assert expected in output.err
    assert (output.out, output.err.count("\n")) == ("", 1)


@pytest.mark.parametrize("arguments", ["--model spaceship", "--format runes", "--profile elle"])
def test_an_unknown_name_is_refused_before_anything_is_fetched(
    arguments: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fetch(*_: object) -> None:
        pytest.fail("Spark was asked for a run")

    monkeypatch.setattr("checkers.spark.start_session", fetch)
    assert harrow("check", *arguments.split(), "hdfs://names/harrow/run") == ExitStatus.USAGE
    assert f"found '{arguments.split()[1]}'" in capsys.readouterr().err


def test_a_file_of_no_known_format_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "noise").write_bytes(bytes(range(256)))
    assert harrow("check", "--json", str(tmp_path / "noise")) == ExitStatus.UNKNOWN
    report = json.loads(capsys.readouterr().out)
    assert (report["verdict"], report["kinds"]) == ("unknown", ["malformed-history"])


def test_the_initial_value_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history.edn"
    path.write_text("{:process 1, :type :invoke, :f :read, :value nil}\n{:process 1, :type :ok, :f :read, :value 0}\n")
    assert harrow("check", str(path)) == ExitStatus.VALID
    assert harrow("check", "--initial", "null", str(path)) == ExitStatus.ANOMALIES


@pytest.mark.parametrize(("flags", "repair"), [((), True), (("--no-repair",), False)])
def test_repair_can_be_switched_off(
    flags: tuple[str, ...], repair: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "history" / "runs").mkdir(parents=True)
    asked: list[bool] = []

    def results_of(runs: Sequence[Path], *, master: str | None, repair: bool) -> list[RunResult]:
        asked.append(repair)
        return [RunResult("run", run, "valid", (), {}, {}, {}) for run in runs]

    monkeypatch.setattr("harness.run.judging.results_of", results_of)
    assert harrow("check", "--json", *flags, str(tmp_path)) == ExitStatus.VALID
    assert asked == [repair]


def test_the_page_of_a_run_is_written_again_with_its_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [tmp_path / "with-page", tmp_path / "without"]
    for run in runs:
        (run / "history" / "runs").mkdir(parents=True)
    page = runs[0] / "report.html"
    page.write_text("of an earlier verdict")

    def results_of(runs: Sequence[Path], **_: object) -> list[RunResult]:
        for run in runs:
            (run / "results.json").write_text('{"verdict": "valid", "incidents": []}')
        return [RunResult("run", run, "valid", (), {}, {}, {}) for run in runs]

    monkeypatch.setattr("harness.run.judging.results_of", results_of)
    assert harrow("check", *map(str, runs)) == ExitStatus.VALID
    assert "<h1>valid<" in page.read_text()
    assert not (runs[1] / "report.html").exists()
