"""The sequence diagram of a simulated run, also from invalid data."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from reports import render
from reports.data.story import load_story
from reports.pictures.sequence import STEPS_MAX, sequence

STEPS = [
    {"at_us": 605_000, "node_id": 1, "text": "Produce 1 to p0", "source": 1_000},
    {"at_us": 605_100, "node_id": 1, "text": "log-0: <b>leads</b> & more", "source": None},
    {"at_us": 606_000, "node_id": 1_003, "text": "Produce: p0 at 0", "source": 1},
    {"at_us": 700_000, "node_id": 0, "text": "kill of 1", "source": None},
    {"at_us": 700_000, "node_id": 100, "text": "VIOLATION of P-12: gone", "source": None},
]


def stored_transitions(directory: Path, content: object) -> Path:
    (directory / "story.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return directory


def drawn(directory: Path):
    return sequence(load_story(directory))


def texts(svg: str) -> list[str]:
    root = ET.fromstring(svg)
    return ["".join(element.itertext()) for element in root.iter("text")]


def test_every_transition_is_drawn_with_its_lane(tmp_path):
    diagram = drawn(stored_transitions(tmp_path, STEPS))
    assert (diagram.shown, diagram.left_out) == (5, 0)
    shown = texts(diagram.svg)
    assert shown[:4] == ["faults", "clients", "broker 1", "controller 100"]
    assert [step["text"] for step in STEPS] == [text for text in shown if text in {step["text"] for step in STEPS}]
    assert diagram.svg.count("marker-end") == 2
    assert diagram.svg.count("<circle") == 3


def test_requests_answers_and_requests_without_an_answer_are_told_apart_without_colour(tmp_path):
    """What an earlier release has stored tells answers from requests by its texts alone."""
    lost = {"at_us": 606_500, "node_id": 2, "text": "failed request", "source": 1, "message": "lost"}
    svg = drawn(stored_transitions(tmp_path, [*STEPS[:3], lost])).svg
    assert [step.message for step in load_story(tmp_path).steps] == ["request", "", "answer", "lost"]
    assert svg.count('stroke-dasharray="5 3" marker-end="url(#tip-open)"') == 1
    assert svg.count('stroke-dasharray="1.5 3"/><path d="M') == 1
    assert svg.count('"stroke: var(--ink)" marker-end="url(#tip)"') == 1


def test_only_the_last_transitions_of_many_are_drawn(tmp_path):
    diagram = drawn(stored_transitions(tmp_path, STEPS * 100))
    assert (diagram.shown, diagram.left_out) == (STEPS_MAX, 500 - STEPS_MAX)


@pytest.mark.parametrize("content", ["", "{", "3", "{}", "[]", '[1, null, {"at_us": "soon"}]', '[{"at_us": 1}]'])
def test_nonsense_is_not_drawn(tmp_path, content):
    assert drawn(stored_transitions(tmp_path, content)) is None


def test_a_run_that_was_not_simulated_has_none(tmp_path):
    assert drawn(tmp_path) is None
    assert "What led to it" not in render(tmp_path).read_text()


def test_the_page_shows_it(tmp_path):
    assert "What led to it" in render(stored_transitions(tmp_path, STEPS)).read_text()
