"""The history of the protocol: its page is that of the table, and what the table says can be seen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker.core.rules.flaws import FLAWS
from simulation.directed.files import schedules
from simulation.known_flaws import history, history_page
from simulation.known_flaws.history import HISTORY, Played, Seed, Story, shows

ROOT = Path(__file__).parents[3]
SEEDS = [
    (generation, cell, one.number)
    for one in HISTORY
    for generation, cell in one.cells.items()
    if isinstance(cell, Seed)
]
PLAYED = [(generation, cell) for one in HISTORY for generation, cell in one.cells.items() if isinstance(cell, Played)]


def test_the_page_is_that_of_the_table() -> None:
    written = (ROOT / "docs/reference/history.md").read_text(encoding="utf-8")
    assert written == history.page(), "run `python -m simulation.known_flaws.history > docs/reference/history.md`"


def test_the_page_to_click_through_is_that_of_the_table() -> None:
    written = (ROOT / "docs/reference/history.html").read_text(encoding="utf-8")
    assert written == history_page.html(), "python -m simulation.known_flaws.history_page > docs/reference/history.html"


def test_every_link_of_the_page_leads_somewhere_on_it_and_nothing_is_fetched() -> None:
    page = history_page.html()
    assert set(re.findall(r'href="([^"]*)"', page)) <= {f"#{one}" for one in re.findall(r'id="([^"]*)"', page)} | {
        "#top"
    }
    assert not re.search(r"src=|url\(|@import|<script|<link", page)


def test_every_version_of_a_row_has_a_cell_that_says_what_shows_it() -> None:
    page = history_page.html()
    for one in HISTORY:
        for generation in one.cells:
            assert f'<article id="{one.number}-{generation}" class="had">' in page
        for generation in FLAWS[one.flaw].generations if one.flaw else ():
            assert f'<article id="{one.number}-{generation}" class="cured">' in page


def test_what_a_rule_left_open_came_after_it() -> None:
    numbers = [one.number for one in HISTORY]
    for one in HISTORY:
        assert set(one.after) <= set(numbers[: numbers.index(one.number)]), one.number


@pytest.mark.parametrize(("generation", "played"), PLAYED)
def test_a_schedule_fails_with_the_versions_that_lack_its_rule(generation: str, played: Played) -> None:
    assert generation not in FLAWS[played.flaw].generations
    assert shows(generation, played)


@pytest.mark.parametrize("played", sorted({played for _, played in PLAYED}))
def test_a_schedule_does_not_fail_so_with_the_first_version_that_has_the_rule(played: Played) -> None:
    assert not shows(FLAWS[played.flaw].generations[0], played)


@pytest.mark.parametrize(("generation", "seed", "number"), SEEDS)
def test_a_seed_shows_its_flaw(generation: str, seed: Seed, number: str) -> None:
    assert shows(generation, seed), number


def test_a_seed_that_does_not_show_its_flaw_is_noticed() -> None:
    generation, seed, _ = SEEDS[0]
    assert not shows(generation, seed._replace(sign="B-99"))


def test_every_story_is_a_test_that_stages_the_version() -> None:
    for one in HISTORY:
        for generation, cell in one.cells.items():
            if isinstance(cell, Story):
                text = (ROOT / "tests/simulation/zookeeper" / cell.file).read_text(encoding="utf-8")
                assert re.search(rf"^def {cell.name}\(", text, re.MULTILINE), (one.number, generation)


def test_every_flaw_of_kraft_is_that_of_the_row_and_has_a_schedule() -> None:
    for one in HISTORY:
        if one.flaw:
            assert FLAWS[one.flaw].number == one.number or one.number == "B-01", one.number
            assert schedules()[one.flaw], one.flaw
