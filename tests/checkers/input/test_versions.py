"""Which node ran which version, as the results of a run with an upgrade have it."""

from __future__ import annotations

from pathlib import Path

from checkers.input.run_facts import facts_of
from checkers.input.tables import survey
from checkers.verdict.verdict import RunResult
from tests.checkers.histories import History


def test_versions_are_in_the_results_in_the_order_of_their_times(tmp_path: Path) -> None:
    history = History("upgraded")
    for node, at_ns, version in ((2, 900, "9.1"), (1, 100, "9.0"), (2, 100, "9.0")):
        history.row("versions", node=node, at_ns=at_ns, version=version)
    facts = facts_of(survey(history.write(tmp_path / "run")))
    assert facts.malformed == ()
    result = RunResult("upgraded", tmp_path, "valid", (), {}, {}, {}, versions=facts.versions)
    assert result.to_json()["versions"] == [
        {"node": 1, "at_ns": 100, "version": "9.0"},
        {"node": 2, "at_ns": 100, "version": "9.0"},
        {"node": 2, "at_ns": 900, "version": "9.1"},
    ]


def test_a_row_that_lacks_something_is_malformed(tmp_path: Path) -> None:
    history = History("broken")
    history.row("versions", node=1, at_ns=None, version="9.0")
    history.row("versions", node=1, at_ns=7, version="9.1")
    facts = facts_of(survey(history.write(tmp_path / "run")))
    assert facts.malformed == (("versions", "version 9.0 of node 1 at None"),)
    assert [each.version for each in facts.versions] == ["9.1"]


def test_a_lost_node_that_is_not_named_is_malformed_too(tmp_path: Path) -> None:
    history = History("broken")
    history.row("losses", node=None, at_ns=7, exit_status=1, last_words="", exempt=[])
    facts = facts_of(survey(history.write(tmp_path / "run")))
    assert (facts.losses, facts.malformed) == ((), (("losses", "node None lost at 7"),))


def test_a_run_without_an_upgrade_has_none(tmp_path: Path) -> None:
    facts = facts_of(survey(History("plain").write(tmp_path / "run")))
    assert facts.versions == ()
    assert RunResult("plain", tmp_path, "valid", (), {}, {}, {}).to_json()["versions"] == []
