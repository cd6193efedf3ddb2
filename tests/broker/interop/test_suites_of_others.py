"""The command that runs other projects' suites, with suites made for these tests."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
from kafka import KafkaAdminClient

from benchmarks.broker.suites_of_others import topics_script
from benchmarks.broker.suites_of_others.__main__ import main
from benchmarks.broker.suites_of_others.librdkafka import OTHER_SCENARIO, Librdkafka
from benchmarks.broker.suites_of_others.pytest_suites import PYTEST_SUITES, run_pytest_suite
from benchmarks.broker.suites_of_others.results import (
    Class,
    Outcome,
    Outside,
    Status,
    classify,
    has_failed,
    outside_of,
    table,
)
from benchmarks.broker.suites_of_others.sources import SuiteFailedError
from tests.support.local_cluster import START_S_MAX, LocalCluster, eventually

HANG_S = 600
LIMIT_S = 4.0
NOBODY = ["127.0.0.1:9"]

# --- what counts -----------------------------------------------------------------------------------------------------


def test_failures_come_first_and_only_those_that_are_not_outside_count():
    outside = [Outside(("txn*", "acl"), "transactions", "Harrow has none")]
    outcomes = [
        Outcome("passes", Status.PASSED, 1.0),
        Outcome("skipped", Status.SKIPPED, 0.0, "needs a moon"),
        Outcome("txn-fails", Status.FAILED, 1.0, "error 47"),
        Outcome("acl", Status.PASSED, 1.0),
        Outcome("fails", Status.FAILED, 2.5, "expected\n  3"),
    ]
    rows = classify(outcomes, outside)
    assert [(row.outcome.test, row.counts_as) for row in rows] == [
        ("fails", Class.FAILED),
        ("txn-fails", Class.OUTSIDE),
        ("acl", Class.UNEXPECTED_PASS),
        ("skipped", Class.SKIPPED),
        ("passes", Class.PASSED),
    ]
    assert has_failed(rows)
    assert not has_failed(rows[1:])
    lines = table(rows).splitlines()
    assert lines[0].split() == ["FAILED", "fails", "2.5", "s", "expected", "3"]
    assert lines[1].endswith("transactions: Harrow has none")
    assert lines[3].endswith("needs a moon")
    assert lines[-1] == "1 failed, 1 outside, 1 passed, though outside, 1 skipped, 1 passed; 5 tests"


def test_every_suite_lists_what_is_outside_with_a_reason():
    for suite in ("librdkafka", *PYTEST_SUITES):
        for each in outside_of(suite, 3):
            assert each.tests
            assert each.subject
            assert len(each.why) > 10
    assert outside_of("no such suite", 3) == []


def test_a_test_that_wants_one_broker_is_outside_only_of_more(tmp_path):
    file = tmp_path / "outside.toml"
    entry = '[[made]]\ntests = ["{0}"]\nsubject = "s"\nwhy = "w"\n'
    file.write_text(entry.format("never") + entry.format("alone") + "several_brokers = true\n")
    assert [each.tests for each in outside_of("made", 1, file)] == [("never",)]
    assert [each.tests for each in outside_of("made", 3, file)] == [("never",), ("alone",)]


# --- librdkafka's runner ---------------------------------------------------------------------------------------------

RUNNER = """\
#!{python}
import json, os, sys, time
assert "harrow-test.conf" in os.environ["RDKAFKA_TEST_CONF"]
assert "bootstrap.servers=127.0.0.1:9" in open(os.environ["RDKAFKA_TEST_CONF"]).read()
assert os.access(os.environ["KAFKA_PATH"] + "/bin/kafka-topics.sh", os.X_OK)
states = dict.fromkeys({names}, "SKIPPED")
wanted, scenario = os.environ["TESTS"], sys.argv[sys.argv.index("-s") + 1]
open("stats.json", "w").close()
assert open("../src/schema.json").read() == "{{}}"
def skip(name, why): print(f"\\x1b[33m[{{name}}    /  0.000s] WARN: SKIPPING TEST: {{why}}")
for name in states:
    if name[:4] == wanted and name != "0004_other":
        if "local" in name: skip(name, "Filtered due to negative test flags")
        elif "skip" in name: skip(name, "no moon")
        elif "hang" in name: time.sleep({hang})
        elif "die" in name: sys.exit("killed by itself")
        elif "bad" in name:
            states[name] = "FAILED"
            print(f'### Test "{{name}} (sub:3: 1 of 2)" failed at x.c:3:f() at noon: ###\\nexpected 3\\n')
        else: states[name] = "PASSED"
if wanted == "0004" and scenario == "noautocreate": states["0004_other"] = "PASSED"
entries = {{name: {{"state": state, "duration": 1.5}} for name, state in states.items()}}
entries["<MAIN>"] = {{"state": "PASSED", "duration": 0}}
json.dump({{"tests": entries}}, open(os.environ["TEST_REPORT"], "w"))
"""
NAMES = ["0001_good", "0001_good_local", "0002_bad", "0003_skip", "0004_other", "0005_hang", "0006_die", "8000_by_hand"]


def runner(folder: Path) -> Path:
    made = folder / "tests" / "test-runner"
    made.parent.mkdir(parents=True)
    (folder / "src").mkdir()
    (folder / "src" / "schema.json").write_text("{}")
    made.write_text(RUNNER.format(python=sys.executable, names=NAMES, hang=HANG_S))
    made.chmod(0o755)
    return folder


@pytest.mark.slow
def test_each_number_of_the_runner_has_an_outcome_and_its_folder_stays_as_it_is(tmp_path):
    sources = runner(tmp_path / "librdkafka")
    suite = Librdkafka(sources, tmp_path / "logs", LIMIT_S)
    numbers = suite.numbers()
    assert numbers == ["0001", "0002", "0003", "0004", "0005", "0006"]
    found = {each.test: each for each in suite.run(numbers, "default", NOBODY, at_once=3)}
    assert {name: each.status for name, each in found.items()} == {
        "0001_good": Status.PASSED,
        "0002_bad": Status.FAILED,
        "0003_skip": Status.SKIPPED,
        "0004_other": Status.SKIPPED,
        "0005": Status.FAILED,
        "0006": Status.FAILED,
    }
    assert (found["0001_good"].seconds, found["0002_bad"].reason, found["0003_skip"].reason) == (
        1.5,
        "expected 3",
        "no moon",
    )
    assert found["0004_other"].reason == OTHER_SCENARIO
    assert found["0005"].reason == "not done within 4 s"
    assert found["0006"].reason == "the runner ended without a report: killed by itself"
    (other,) = suite.run(["0004"], "noautocreate", NOBODY, at_once=1)
    assert (other.test, other.status) == ("0004_other", Status.PASSED)
    assert [path.name for path in (sources / "tests").iterdir()] == ["test-runner"]


def test_a_folder_without_a_built_runner_is_refused_in_one_line(tmp_path, capsys):
    arguments = ["--suite", "librdkafka", "--sources", str(tmp_path), "--logs", str(tmp_path / "logs")]
    assert main(arguments) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert "expected the built runner" in line


# --- suites of pytest ------------------------------------------------------------------------------------------------


def kafka_python(folder: Path, text: str) -> Path:
    tests = folder / "test" / "integration"
    tests.mkdir(parents=True)
    (tests / "test_made.py").write_text(dedent(text))
    return folder


def outcomes_of(suite: str, sources: Path, logs: Path, tests: str = "") -> dict[str, Outcome]:
    logs.mkdir(exist_ok=True)
    run: Callable[..., list[Outcome]] = run_pytest_suite
    outcomes = run(PYTEST_SUITES[suite], sources, NOBODY, tests, sys.executable, logs, LIMIT_S)
    return {each.test.rsplit("::")[-1]: each for each in outcomes}


@pytest.mark.slow
def test_a_test_that_hangs_or_ends_the_process_fails_alone(tmp_path):
    sources = kafka_python(
        tmp_path / "suite",
        f"""
        import os, time
        import pytest

        def test_before(): pass
        def test_hangs(): time.sleep({HANG_S})
        def test_between(): assert os.environ["KAFKA_URI"] == "kafka://127.0.0.1:9"
        def test_dies(): os._exit(7)
        def test_fails(): assert 1 == 2, "one is not two"
        @pytest.fixture
        def broken(): raise KeyError("set-up")
        def test_cannot_begin(broken): pass
        @pytest.mark.skip(reason="no moon")
        def test_skipped(): pass
        """,
    )
    found = outcomes_of("kafka-python", sources, tmp_path / "logs")
    assert {test: each.status for test, each in found.items()} == {
        "test_before": Status.PASSED,
        "test_hangs": Status.FAILED,
        "test_between": Status.PASSED,
        "test_dies": Status.FAILED,
        "test_fails": Status.FAILED,
        "test_cannot_begin": Status.FAILED,
        "test_skipped": Status.SKIPPED,
    }
    assert found["test_hangs"].reason == "not done within 4 s"
    assert found["test_dies"].reason == "the process ended with status 7"
    assert "one is not two" in found["test_fails"].reason
    assert "set-up" in found["test_cannot_begin"].reason
    assert "no moon" in found["test_skipped"].reason
    assert [path.name for path in sources.rglob("*") if path.is_file()] == ["test_made.py"]


def test_a_module_that_does_not_load_fails_and_tests_can_be_selected(tmp_path):
    sources = kafka_python(tmp_path / "suite", "def test_one(): pass\ndef test_two(): pass\n")
    assert outcomes_of("kafka-python", sources, tmp_path / "logs", "two").keys() == {"test_two"}
    (sources / "test" / "integration" / "test_broken.py").write_text("import no_such_module\n")
    found = outcomes_of("kafka-python", sources, tmp_path / "logs")
    (broken,) = [each for each in found.values() if each.test.endswith("test_broken.py")]
    assert broken.status == Status.FAILED
    assert "no_such_module" in broken.reason


def test_a_folder_without_tests_is_an_error(tmp_path):
    with pytest.raises(SuiteFailedError, match="no such folder"):
        outcomes_of("kafka-python", tmp_path, tmp_path / "logs")
    sources = kafka_python(tmp_path / "suite", "")
    with pytest.raises(SuiteFailedError, match="found none"):
        outcomes_of("kafka-python", sources, tmp_path / "logs")


def test_aiokafkas_tests_get_our_brokers_and_those_without_a_broker_are_left_out(tmp_path):
    tests = tmp_path / "suite" / "tests"
    tests.mkdir(parents=True)
    (tests / "conftest.py").write_text(
        dedent(
            """
            import pytest

            def pytest_addoption(parser):
                parser.addoption("--docker-image")
                parser.addoption("--no-pull", action="store_true")

            @pytest.fixture(scope="session")
            def kafka_server(): raise AssertionError("would start a container")

            @pytest.fixture(scope="class")
            def acl_manager(kafka_server): raise AssertionError("would run a program in a container")
            """
        )
    )
    (tests / "test_made.py").write_text(
        dedent(
            """
            def test_server(kafka_server, request):
                assert kafka_server.hosts == ["127.0.0.1:9"]
                assert (kafka_server.host, kafka_server.port) == ("127.0.0.1", 9)
                assert request.config.getoption("--docker-image").count(":") == 1
            def test_access(kafka_server, acl_manager): acl_manager.add_acl(topic="t")
            def test_alone(): assert False
            """
        )
    )
    found = outcomes_of("aiokafka", tmp_path / "suite", tmp_path / "logs")
    assert {test: each.status for test, each in found.items()} == {
        "test_server": Status.PASSED,
        "test_access": Status.FAILED,
    }
    assert "the cluster has no access control" in found["test_access"].reason


# --- a real cluster --------------------------------------------------------------------------------------------------


@pytest.mark.cluster
def test_a_suite_runs_against_a_cluster_of_its_own_and_the_nodes_logs_are_kept(tmp_path, capsys):
    sources = kafka_python(
        tmp_path / "suite",
        """
        import os
        from kafka import KafkaConsumer, KafkaProducer

        def test_what_is_written_is_read():
            brokers = os.environ["KAFKA_URI"].removeprefix("kafka://")
            KafkaProducer(bootstrap_servers=brokers).send("made", b"value").get(30)
            consumer = KafkaConsumer("made", bootstrap_servers=brokers, auto_offset_reset="earliest")
            assert next(consumer).value == b"value"

        def test_transactional_producer_made(): assert False
        """,
    )
    logs = tmp_path / "logs"
    arguments = ["--suite", "kafka-python", "--sources", str(sources), "--logs", str(logs), "--limit", "90"]
    assert main(arguments) == 0
    last = capsys.readouterr().out.splitlines()[-2]
    assert last == "0 failed, 1 outside, 0 passed, though outside, 0 skipped, 1 passed; 2 tests"
    assert sorted(path.name for path in (logs / "nodes").iterdir()) == ["0.txt", "1.txt", "100.txt", "2.txt"]
    assert "test_what_is_written_is_read" in (logs / "pytest.txt").read_text()
    assert [json.loads(line) for line in (logs / "outcomes.jsonl").read_text().splitlines()]


@pytest.mark.cluster
def test_the_script_of_topics_does_what_tests_ask_of_it(cluster: LocalCluster, capsys):
    def script(*what: str) -> int:
        return topics_script.main(["--bootstrap-server", ",".join(cluster.bootstrap), "--topic", "scripted", *what])

    def is_seen_with(partitions: int) -> None:
        def same() -> bool:
            found = admin.describe_topics(["scripted"])
            return [len(each["partitions"]) for each in found] == [partitions]

        eventually(same, START_S_MAX, f"the topic with {partitions} partitions")  # brokers learn of it one by one

    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        asked = ("--create", "--partitions", "2", "--replication-factor", "1", "--config", "retention.ms=5000")
        assert script(*asked) == 0
        is_seen_with(2)
        assert script("--alter", "--partitions", "3") == 0
        is_seen_with(3)
        assert script(*asked) == 1
        assert "scripted" in capsys.readouterr().err
        assert script("--delete") == 0
        eventually(lambda: "scripted" not in admin.list_topics(), START_S_MAX, "the topic's end")
    finally:
        admin.close()
