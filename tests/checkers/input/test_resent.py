"""Which records the logs show to have been sent again by their client, and how results count them."""

from __future__ import annotations

from pathlib import Path

from checkers.input.resent import Resent
from checkers.input.run_facts import RunFacts, facts_of
from checkers.input.tables import survey
from tests.checkers.histories import History


def facts(history: History, directory: Path) -> RunFacts:
    return facts_of(survey(history.write(directory)))


def test_copies_of_rising_epochs_of_one_producer_are_sent_again(tmp_path: Path) -> None:
    history = History("again")
    history.repeated(100, [(4, 7, 0), (9, 7, 1)])
    history.repeated(101, [(5, 7, 1), (10, 7, 1)])
    assert facts(history, tmp_path).resent == (Resent("log", 0, 100, 7, ((4, 0), (9, 1))),)


def test_one_copy_is_no_evidence(tmp_path: Path) -> None:
    history = History("once")
    history.repeated(100, [(4, 7, 1)])
    assert facts(history, tmp_path).resent == ()


def test_rows_that_lack_their_place_are_malformed(tmp_path: Path) -> None:
    history = History("broken")
    history.row("repeats", broker=1, topic="log", partition=0, offset=None, value=100)
    history.row("repeats", broker=1, topic="log", partition=0, offset=4, value=None)
    found = facts(history, tmp_path)
    assert found.resent == ()
    assert found.malformed == (("repeats", "value 100 of log-0"), ("repeats", "value None of log-0"))
