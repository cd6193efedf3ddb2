"""The message chart of a simulated failure: what is stored for it, and what it does in a browser."""

import json
import re
import tempfile
from pathlib import Path

import pytest

from reports import render
from reports.data.story import CLIENTS, NEMESIS, STEPS_MAX, load_story
from simulation.directed.files import DIRECTED_SCHEDULES
from simulation.runs.stored import store_schedule_run
from tests.reports.browser import browsing, chromium

HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m\u202eevil"
STEPS = [
    {"at_us": 10, "node_id": 1, "text": "starts", "source": None},
    {"at_us": 20, "node_id": 100, "text": "registers", "source": 1, "cause": 0},
    {"at_us": 600_000, "node_id": 1, "text": "Produce 1 to p0", "source": 1_005, "state": {
        "log-0": {"role": "leader", "epoch": 3, "log": [[2, 0, 4], [3, 4, 6]], "log_end": 6, "high_watermark": 4,
                  "isr": [1, 2], "elr": [3]}}},
    {"at_us": 600_100, "node_id": 2, "text": "timer", "source": None, "noise": "timer", "folded": {"heartbeat": 7}},
    {"at_us": 600_200, "node_id": 2, "text": "flush", "source": None, "noise": "flush"},
    {"at_us": 600_300, "node_id": 1, "text": "Fetch p0 from 5", "source": 2, "cause": 2},
    {"at_us": 600_400, "node_id": 1, "text": "log-0: says " + HOSTILE, "source": None, "cause": 5},
    {"at_us": 600_400, "node_id": 0, "text": "VIOLATION of P-12: acknowledged early", "source": None, "cause": 5},
]  # fmt: skip


def stored(directory, content):
    (directory / "story.json").write_text(json.dumps(content))
    return directory


def test_a_story_knows_causes_states_and_where_the_start_up_ends(tmp_path):
    story = load_story(stored(tmp_path, STEPS))
    assert story.begins == 2
    assert story.violation == 7
    assert story.lanes == [NEMESIS, CLIENTS, 1, 2, 100]
    assert story.steps[2].state["log-0"]["log"] == [[2, 0, 4], [3, 4, 6]]
    assert [step.cause for step in story.steps] == [None, 0, None, None, None, 2, 5, 5]
    assert story.steps[3].folded == {"heartbeat": 7}
    assert story.columns == (
        "flt. the faults that were injected, and the violation, cl. the clients, b1 broker 1, c100 controller 100"
    )
    assert not set(story.steps[6].text) & set("\x1b\u202e")


def test_a_page_says_that_no_fault_is_among_the_steps_that_led_to_it(tmp_path):
    fault = {"at_us": 600_050, "node_id": 0, "text": "kill broker 2", "source": None}
    marked = [*STEPS[:5], {**STEPS[5], "cause": 7}, STEPS[6], fault, {**STEPS[7], "cause": 5}]
    assert not load_story(stored(tmp_path, STEPS)).reaches_a_fault
    assert not load_story(stored(tmp_path, marked)).reaches_a_fault  # nothing comes of what is later
    marked = [*STEPS[:2], fault, {**STEPS[5], "cause": 2}, {**STEPS[7], "cause": 3}]
    assert load_story(stored(tmp_path, marked)).reaches_a_fault


@pytest.mark.parametrize(
    "broken",
    [
        {"cause": 99}, {"cause": "1"}, {"cause": True}, {"state": 3}, {"state": {"log-0": []}}, {"folded": [1]},
        {"state": {"log-0": {"log": [[1]], "isr": "all", "role": 5, "high_watermark": 1e300}}}, {"noise": 1},
        {"ended": "yes"}, {"before": 3}, {"before": {"x": {}}},
    ],
)  # fmt: skip
def test_parts_that_make_no_sense_are_left_out(tmp_path, broken):
    (step,) = load_story(stored(tmp_path, [{**STEPS[0], **broken}])).steps
    assert (step.cause, step.noise, step.folded, step.ended) == (None, "", {}, False)
    assert not any(step.state.values())


def test_a_long_story_keeps_its_end_and_the_causes_in_it(tmp_path):
    steps = [{**STEPS[0], "cause": number - 1} for number in range(STEPS_MAX + 10)]
    story = load_story(stored(tmp_path, steps))
    assert len(story.steps) == STEPS_MAX
    assert [story.steps[0].cause, story.steps[1].cause, story.steps[-1].cause] == [None, 0, STEPS_MAX - 2]


def test_a_line_without_end_is_cut(tmp_path):
    page = render(stored(tmp_path, [*STEPS, {**STEPS[0], "text": HOSTILE + "x" * 10_000_000}]))
    assert page.stat().st_size < 500_000
    assert "<img" not in page.read_text()


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """The run of a schedule that fails."""
    directory = tmp_path_factory.mktemp("played")
    path = DIRECTED_SCHEDULES.files()["unclean-election"]
    store_schedule_run(directory, path, flawed=True)
    return directory


def test_a_played_schedule_stores_what_caused_each_step_and_the_logs_of_each_node(played):
    story = load_story(played)
    caused = [step for step in story.steps if step.cause is not None]
    assert len(caused) > 10
    assert all(story.steps[step.cause].at_us <= step.at_us for step in caused)
    answers = [step for step in caused if step.source not in (None, CLIENTS) and not step.noise]
    assert answers
    # what came from a node was caused by something at that node
    assert all(story.steps[step.cause].lane == step.source for step in answers)
    states = [state for step in story.steps for state in step.state.values() if "log" in state]
    assert states
    for state in states:
        borders = [state["log_start"], *(end for _, _, end in state["log"])]
        assert [start for _, start, _ in state["log"]] == borders[:-1]
        assert borders[-1] == state["log_end"]


def test_a_fetch_that_brought_nothing_says_of_what_and_from_where(played):
    fetches = [step for step in load_story(played).steps if step.noise == "fetch without data"]
    asked = {step.text for step in fetches if step.message == "request"}
    assert asked
    assert all(re.fullmatch(r"fetch of (metadata|p\d+) from \d+(, (metadata|p\d+) from \d+)*", text) for text in asked)


def test_a_node_that_starts_again_was_led_to_that_by_what_ended_it(tmp_path):
    store_schedule_run(tmp_path, DIRECTED_SCHEDULES.files()["registration-changes-nothing"], flawed=True)
    steps = load_story(tmp_path).steps
    again = [step for index, step in enumerate(steps) if step.text == "starts" and any(
        one.lane == step.lane and one.ended for one in steps[:index])]  # fmt: skip
    assert again
    assert all(steps[step.cause].lane == step.lane and steps[step.cause].ended for step in again)


def test_a_played_schedule_stores_what_kind_of_message_each_is(played):
    steps = load_story(played).steps
    assert {step.message for step in steps} == {"", "request", "answer"}
    assert all(step.message for step in steps if step.source is not None)
    by_text = {step.text.partition(" ")[0]: step.message for step in steps if re.match("Fetch|Produce", step.text)}
    assert by_text == {"Fetch": "request", "Fetch:": "answer", "Produce": "request", "Produce:": "answer"}


@pytest.mark.slow
def test_requests_answers_and_what_got_no_answer_have_lines_and_heads_of_their_own(tmp_path):
    if chromium() is None:
        pytest.skip("needs chromium to run the page's script")
    steps = [
        {"at_us": 1_000_000 + number, "node_id": 1, "text": kind, "source": 2, "message": kind}
        for number, kind in enumerate(("request", "answer", "lost"))
    ]
    page = render(stored(tmp_path, steps))
    drawn = "['arrow', 'tip'].map((part) => [...document.querySelectorAll(`#chart .${part}`)].map"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile, browsing(Path(profile)) as browser:
        browser.open(page, 800, 900)
        dashes, _ = browser.run(f"{drawn}((one) => getComputedStyle(one).strokeDasharray))")
        assert dashes == ["none", "5px, 3px", "1.5px, 3px"]
        _, filled = browser.run(f"{drawn}((one) => getComputedStyle(one).fill !== 'none'))")
        assert filled == [True, False, False]
        whose = browser.run("[...document.querySelectorAll('#chart .who')].map((one) => one.textContent)")
        assert whose == ["broker 2 to broker 1: ", "broker 2 to broker 1: ", "broker 1 to broker 2: "]


@pytest.mark.slow
def test_the_chart_is_walked_by_keys_from_the_violation_back_to_its_cause(tmp_path):
    if chromium() is None:
        pytest.skip("needs chromium to run the page's script")
    page = render(stored(tmp_path, STEPS))
    current = "document.querySelector('#chart-steps [aria-selected=\"true\"] .what').textContent"
    texts = "[...document.querySelectorAll('#chart-steps .what')].map((one) => one.textContent)"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile, browsing(Path(profile)) as browser:
        browser.open(page, 800, 900)
        assert (browser.requests[1:], browser.errors) == ([], [])
        assert browser.run(current).startswith("VIOLATION of P-12")
        said = browser.run("document.getElementById('chart-said').textContent")
        assert " s: VIOLATION of P-12" in said
        assert "faults" not in said
        shown = browser.run(texts)
        assert shown[0] == "▸ start-up: 2 steps"
        assert shown[2] == "▸ heartbeat: 7, timer: 1, flush: 1"
        browser.run("document.getElementById('chart-steps').focus()")
        browser.press("c")
        assert browser.run(current) == "broker 2 to broker 1: Fetch p0 from 5"
        browser.press("c")
        assert browser.run(current).endswith("Produce 1 to p0 state")
        state = browser.run("document.getElementById('chart-state').textContent")
        assert "0\N{EN DASH}3 of epoch 2, 4\N{EN DASH}5 of epoch 3" in state
        assert "[1, 2]" in state
        browser.press("e", "j")
        assert "says </script><img" in browser.run(current)
        assert browser.run("document.images.length") == 0
        browser.press("f")
        assert len(browser.run(texts)) == len(shown) + 4
        browser.press("f", "o")
        assert len(browser.run(texts)) == 3
        browser.press("o", "End", "/")
        browser.run("document.getElementById('chart-search').value = 'registers'")
        browser.press("Enter")
        assert browser.run(current) == "broker 1 to controller 100: registers"
        assert browser.run("document.getElementById('chart-hits').textContent") == "1 of 1"
