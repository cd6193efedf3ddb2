"""The page tells which faults are parts of a recipe, and which entries of the schedule were not fired."""

from __future__ import annotations

import html
import json
from typing import Any

from history.reader import read_table
from reports.data.stored_run import load_run
from reports.data.suspects import recipe_of
from reports.page import render
from reports.text.schedule import unfired
from tests.reports import synthetic_run


def sentence_for(directory: Any, entries: object) -> str:
    (directory / "schedule.json").write_text(json.dumps({"entries": entries}))
    return unfired(load_run(directory))


def test_entries_without_a_fault_are_named_with_their_time_and_target(copy_of):
    directory = copy_of("invalid")
    row = read_table(directory, "faults").slice(0, 1).to_pylist()[0]
    synthetic_run.write_table(directory, "faults", [{**row, "schedule_entry": 1}])
    fired = {"entry": 1, "at_ms": 4_000, "kind": "kill", "target": {"role": "leader"}}
    left = {"entry": 2, "at_ms": 18_200, "kind": "pause", "target": {"role": "in-sync-follower"}}
    assert sentence_for(directory, [fired]) == ""
    assert sentence_for(directory, [fired, left]) == (
        "Not fired, of the schedule's 2 entries: entry 2, pause of in-sync-follower, due 18.2 s into the main"
        " phase. When it was due no node fitted, or the main phase had ended."
    )


def test_nothing_is_told_of_a_schedule_that_is_none(copy_of):
    directory = copy_of("invalid")
    for entries in (None, "", [[]], [{"entry": [2]}], []):
        assert sentence_for(directory, entries) == ""
    assert "at" not in sentence_for(directory, [{"entry": -7, "at_ms": 10**400}]).split(".")[0].split("entry -7")[1]


def test_the_page_of_a_run_in_which_nothing_was_fired_names_what_should_have_been(copy_of):
    directory = copy_of("invalid")
    synthetic_run.write_table(directory, "faults", [])
    sentence = sentence_for(directory, [{"entry": 1, "at_ms": 4_000, "kind": "kill"}])
    page = html.unescape(render(directory).read_text())
    assert "No fault was fired." in page
    assert sentence in page


def test_parts_of_a_simulated_recipe_lead_to_it_and_other_faults_to_none(copy_of):
    directory = copy_of("invalid")
    row = read_table(directory, "faults").slice(0, 1).to_pylist()[0]
    kinds = [("added-twice", 4), ("kill", 4), ("kill", 5), ("kill", None), ("pause", 5)]
    faults = [{**row, "fault": n, "kind": kind, "schedule_entry": at} for n, (kind, at) in enumerate(kinds, start=1)]
    synthetic_run.write_table(directory, "faults", faults)
    run = load_run(directory)
    assert [recipe_of(run, fault) for fault in run.faults] == [None, 1, None, None, None]
    assert render(directory).read_text().count('a part of <a href="#fault-1">fault 1</a>') == 1
