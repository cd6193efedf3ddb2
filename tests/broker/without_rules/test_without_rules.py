"""The command that takes rules out of the broker: its list is complete, and it reports a rule that no test holds."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from broker.core.messages.errors import ErrorCode
from broker.core.rules.flaws import FLAWS, rules_for
from tests.broker.without_rules.changes import conditions, whole
from tests.broker.without_rules.mutants import RULES, Mutant, all_mutants, not_taken_out, rule_ids
from tests.broker.without_rules.report import Result, lines
from tests.broker.without_rules.rows import rows
from tests.broker.without_rules.runs import Outcome
from tests.broker.without_rules.tables import ANSWERS, EQUIVALENT, NO_WAY

ROOT = Path(__file__).parents[3]
TESTS_OF_TWO_RULES = """
from broker.core.rules.quorum import QuorumRules


def test_that_looks_at_nothing():
    QuorumRules().end_that_counts(8, 11)


def test_that_holds_its_rule():
    assert not QuorumRules().may_truncate_below(9, 10)
"""


@pytest.fixture(scope="module")
def mutants() -> list[Mutant]:
    return all_mutants()


def test_every_rule_is_taken_out_or_says_why_not(mutants: list[Mutant]) -> None:
    assert [rule for rule, why in not_taken_out(mutants).items() if not why] == []
    assert sorted(not_taken_out(mutants)) == sorted(NO_WAY)
    assert {rule for mutant in mutants for rule in mutant.rules} | set(NO_WAY) == set(rule_ids())


def test_every_method_of_a_rule_object_is_taken_out(mutants: list[Mutant]) -> None:
    taken = {mutant.where for mutant in mutants}
    missing = []
    for path in sorted((ROOT / RULES).glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            for child in node.body if isinstance(node, ast.ClassDef) and path.name != "generations.py" else ():
                decides = isinstance(child, ast.FunctionDef) and not child.name.startswith("_")
                if decides and f"rules/{path.name} {node.name}.{child.name}" not in taken:
                    missing.append(f"{path.name} {node.name}.{child.name}")
    assert missing == [], "add neutral answers to tests/broker/without_rules/tables.py"


def test_every_flaw_is_planted(mutants: list[Mutant]) -> None:
    assert {mutant.what for mutant in mutants if mutant.flaw is not None} == set(FLAWS)


def test_names_are_unique_and_the_tables_name_what_there_is(mutants: list[Mutant]) -> None:
    names = [mutant.name for mutant in all_mutants(thorough=True)]
    assert len(names) == len(set(names))
    assert sorted(set(EQUIVALENT) - set(names)) == []
    functions = {mutant.where.split(" ")[1] for mutant in mutants if mutant.flaw is None}
    assert sorted(set(ANSWERS) - functions) == []


def test_every_row_of_the_page_names_rules_that_are_taken_out(mutants: list[Mutant]) -> None:
    taken = {rule for mutant in mutants for rule in mutant.rules}
    assert [row.title for row in rows() if not row.rules or not set(row.rules) <= taken] == []


FUNCTION = '''
def decide(self, first: int, second: int) -> bool:
    """A rule."""
    if first < 0:
        return False
    if first > 1000:
        self.runtime.mark(LARGE if second else SMALL)
    return first > second and min(first, 9) == second + 1
'''


def test_what_is_taken_out_of_a_function() -> None:
    function = ast.parse(FUNCTION).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert [change.what for change in whole(function)] == ["return True", "return False"]
    assert [change.what for change in whole(function, ("first",))] == ["return first"]
    assert [change.what for change in conditions(function, every=False)] == [
        "if first < 0: False",
        "without 9 in min(first, 9)",
        "without first in min(first, 9)",
        "second + 1: not + 1",
    ]
    assert [change.what for change in conditions(function, every=True)] == [
        "if first < 0: False",
        "boundary of first < 0",
        "without and first > second",
        "without and min(first, 9) == second + 1",
        "boundary of first > second",
        "without 9 in min(first, 9)",
        "without first in min(first, 9)",
        "second + 1: not + 1",
    ]


@pytest.mark.parametrize(
    ("what", "arguments", "answers"),
    [
        ("return False", (5, 5), False),
        ("if first < 0: False", (-1, -2), True),
        ("boundary of first < 0", (0, -1), False),
        ("without and first > second", (0, 1), False),
        ("without 9 in min(first, 9)", (12, 11), True),
        ("second + 1: not + 1", (9, 8), False),
    ],
)
def test_the_changed_function_decides_otherwise(what: str, arguments: tuple[int, int], answers: bool) -> None:
    function = ast.parse(FUNCTION).body[0]
    assert isinstance(function, ast.FunctionDef)
    changes = {change.what: change for change in (*whole(function), *conditions(function, every=True))}
    scope: dict[str, object] = {}
    module = ast.fix_missing_locations(ast.Module([changes[what].function], []))
    exec(compile(module, "changed", "exec"), scope)
    assert scope["decide"](None, *arguments) is answers  # type: ignore[operator]


def test_a_mutant_changes_the_running_program_and_can_be_undone(mutants: list[Mutant]) -> None:
    mutant = next(
        one for one in mutants if one.name == "rules/requests.py FetchRules.check_epoch: return ErrorCode.NONE"
    )
    (function,) = mutant.functions
    before = function.__code__
    rules = rules_for("K5", ())
    try:
        mutant.apply()
        assert rules.fetch.check_epoch(4, 5) == ErrorCode.NONE
    finally:
        function.__code__ = before
    assert rules.fetch.check_epoch(4, 5) == ErrorCode.FENCED_LEADER_EPOCH


def _command(tmp_path: Path, match: str) -> subprocess.CompletedProcess[str]:
    tests = tmp_path / "test_two_rules.py"
    tests.write_text(TESTS_OF_TWO_RULES)
    command = (sys.executable, "-m", "tests.broker.without_rules", "--match", match, "--tests", str(tests))
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=200)


@pytest.mark.slow
def test_a_rule_that_no_test_holds_is_reported_first_and_fails_the_command(tmp_path: Path) -> None:
    done = _command(tmp_path, "rules/quorum.py QuorumRules.end_that_counts: return")
    assert done.returncode == 1, done.stdout + done.stderr
    report = done.stdout[done.stdout.index("rules that no test holds") :].splitlines()
    assert report[1] == "  QU-12"
    assert "end_that_counts: return written  (QU-12; 1 tests call it)" in done.stdout


@pytest.mark.slow
def test_a_rule_that_a_test_holds_passes(tmp_path: Path) -> None:
    done = _command(tmp_path, "QuorumRules.may_truncate_below: return True")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test_that_holds_its_rule" in done.stdout


def test_the_tests_must_pass_without_a_mutant(tmp_path: Path) -> None:
    tests = tmp_path / "test_broken.py"
    tests.write_text("def test_broken():\n    raise AssertionError\n")
    command = (sys.executable, "-m", "tests.broker.without_rules", "--rule", "QU-12", "--tests", str(tests))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 2
    assert "test_broken" in done.stdout


def test_an_explanation_must_still_be_needed_and_a_row_must_hold_its_rule(mutants: list[Mutant]) -> None:
    first, second, third = mutants[:3]
    outcomes = [Outcome(first, noticed_by="tests/x.py::test"), Outcome(second), Outcome(third, error=True)]
    names = frozenset(mutant.name for mutant in mutants)

    def result(explained: dict[str, str], idle: list[str]) -> Result:
        return Result(outcomes, idle, explained, names, {}, 1.0)

    assert result({first.name: "why"}, []).stale == [first.name]
    assert result({"gone": "why"}, []).stale == ["gone"]
    assert result({second.name: "why"}, []).stale == []
    assert result({}, []).unheld == [outcomes[1]]
    assert result({second.name: "why"}, []).unheld == []
    assert Result(outcomes[:1], [], {}, names, {}, 1.0).status == 0
    assert Result(outcomes[:1], ["row"], {}, names, {}, 1.0).status == 1
    assert Result(outcomes[::2], [], {}, names, {}, 1.0).status == 1
    assert Result([], [], {}, names, {}, 1.0).status == 1
    assert "  row" in list(lines(result({}, ["row"])))
