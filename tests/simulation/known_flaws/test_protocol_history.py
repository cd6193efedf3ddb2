"""The history of the protocol: its page is that of the table, and what the table says can be seen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker.core.rules.flaws import FLAWS
from simulation.directed.files import schedules
from simulation.known_flaws import history
from simulation.known_flaws.history import HISTORY, Seed, Story, shows

ROOT = Path(__file__).parents[3]
SEEDS = [
    (generation, cell, one.number)
    for one in HISTORY
    for generation, cell in one.cells.items()
    if isinstance(cell, Seed)
]


def test_the_page_is_that_of_the_table() -> None:
    written = (ROOT / "docs/reference/history.md").read_text(encoding="utf-8")
    assert written == history.page(), "run `python -m simulation.known_flaws.history > docs/reference/history.md`"


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
