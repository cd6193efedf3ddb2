"""The pytest plugin, on test files of its own: seeds, failures with their commands, bad marks, and its cost."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness

pytest_plugins = ["pytester"]

ROOT = Path(harness.__file__).parents[1]
SETTINGS = 'operations=20, polls=20, duration_ms=6000, faults="none"'


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Run pytest with the plugin alone, in this process."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def runs(text: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(f"import pytest\n{text}")
        return pytester.runpytest_inprocess("-p", "harrow.pytest_plugin", "-p", "no:cacheprovider", *options)

    return runs


def marked(seeds: str, body: str, more: str = "") -> str:
    return f"@pytest.mark.harrow(seeds={seeds}, {SETTINGS}{more})\ndef test_it(cluster):\n    {body}\n"


def test_a_test_runs_once_for_each_seed(run) -> None:
    result = run(marked("3", "assert cluster.run().verdict == 'valid'"), "--strict-markers", "-v")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines_random([f"*test_it?seed-{seed}? PASSED*" for seed in (1, 2, 3)])


def test_a_violation_fails_with_its_seed_and_commands(run) -> None:
    result = run(marked("[1]", "cluster.run()", ', flaws="ack-before-replication"'))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E *ViolationFound: seed 1: P-12: *",
            "E *again:   harrow sim --seed 1 --set operations=20 * --flaw ack-before-replication",
            "E *explain: harrow explain 1 *",
        ]
    )
    assert "simulating.py" not in result.stdout.str(), "the trace ends in the test"


def test_a_failure_of_the_test_itself_has_them_too(run) -> None:
    result = run(marked('"7:8"', "assert cluster.simulate().events == cluster.seed - 7"))
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*harrow, seed 7*", "again:   harrow sim --seed 7 *"])
    result.stdout.fnmatch_lines(["*harrow, seed 8*"])


def test_a_test_may_judge_by_itself(run) -> None:
    body = "assert cluster.simulate(flaws='ack-before-replication').findings[0].property_id == 'P-12'"
    run(marked("1", body)).assert_outcomes(passed=1)


def test_a_test_that_never_runs_its_cluster_is_an_error(run) -> None:
    result = run(marked("1", "pass"))
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*expected the test to call cluster.run() or cluster.simulate(), found neither"])
    run(marked("1", "pytest.skip('today')")).assert_outcomes(skipped=1)
    run(marked("1", "assert 0")).assert_outcomes(failed=1)


def test_the_option_replaces_the_seeds(run) -> None:
    body = "assert cluster.seed in (4, 5); cluster.run()"
    run(marked("500", body), "--harrow-seeds", "4:5").assert_outcomes(passed=2)
    result = run(marked("500", body), "--harrow-seeds", "5:4")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--harrow-seeds: expected a number of seeds, *, found '5:4'"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (marked("0", "pass"), "test_it: expected seeds=a number of seeds, a range*, found 0"),
        (marked("'1:x'", "pass"), "test_it: expected seeds=*, found '1:x'"),
        (marked("[]", "pass"), "test_it: expected seeds=*"),
        (marked("[-1]", "pass"), "test_it: expected seeds=*"),
        (marked("True", "pass"), "test_it: expected seeds=*, found True"),
        (
            "@pytest.mark.harrow(500)\ndef test_it(cluster): pass",
            "test_it: expected seeds=*, found @pytest.mark.harrow(500)",
        ),
        ("@pytest.mark.harrow(seeds=1)\ndef test_it(): pass", "test_it: expected a test with the fixture `cluster`*"),
        ("def test_it(cluster): pass", "*expected a test marked with @pytest.mark.harrow(seeds=…), found no mark"),
        (marked("1", "cluster.run(broker=3)"), "harrow: expected a setting of the simulation *found 'broker'*"),
    ],
)
def test_a_wrong_mark_is_one_line(run, text: str, expected: str) -> None:
    result = run(text)
    assert result.ret not in (pytest.ExitCode.OK, pytest.ExitCode.INTERNAL_ERROR)
    result.stdout.fnmatch_lines([f"*{expected}"])
    assert "pytest_plugin.py:" not in result.stdout.str()


def test_other_tests_pay_nothing_for_the_plugin(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(
        """
        import sys
        HEAVY = {"harness", "simulation", "broker", "pandas", "numpy", "pyarrow", "pyspark"}
        def test_it():
            assert "harrow.pytest_plugin" in sys.modules
            assert not HEAVY & set(sys.modules)
        """
    )
    pytester.runpytest_subprocess("-p", "harrow.pytest_plugin").assert_outcomes(passed=1)
