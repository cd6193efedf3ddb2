"""The table of kinds of fault agrees with what real clusters and the simulation can do, and with the documentation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import nemesis
from history.contract import ENDING_KINDS
from nemesis.faults import KINDS
from nemesis.kinds import LISTED_KINDS, Family, Where
from nemesis.recipes import RECIPES as REAL_RECIPES
from simulation.faults.nemesis import SimulatedNemesis
from simulation.faults.recipes import STEPS
from simulation.scenario.configuration import FAULTS, RECIPES

DOCUMENT = Path(nemesis.__file__).parents[1] / "docs" / "reference" / "faults.md"


def of(*where: Where) -> set[str]:
    return {name for name, kind in LISTED_KINDS.items() if kind.where in where}


def test_the_table_marks_who_can_inject_a_kind() -> None:
    assert of(Where.BOTH, Where.REAL) == {*KINDS, *REAL_RECIPES}
    assert of(Where.BOTH, Where.SIMULATED) == set(FAULTS)
    assert set(STEPS) == set(RECIPES) > set(REAL_RECIPES)
    assert set(RECIPES) == {name for name, kind in LISTED_KINDS.items() if kind.family == "recipe"}
    for kind in set(FAULTS) - set(RECIPES):
        assert hasattr(SimulatedNemesis, "_" + kind.replace("-", "_"))


def test_the_documentation_lists_the_kinds_of_the_simulation_as_the_table_does() -> None:
    families = "|".join(get_args(Family))
    rows = re.findall(rf"^\| `({families})` \|(.*)\|(.*)\|$", DOCUMENT.read_text(), re.MULTILINE)
    documented = {
        (name, family, where)
        for family, *cells in rows
        for where, cell in zip((Where.BOTH, Where.SIMULATED), cells, strict=True)
        for name in re.findall("`([a-z-]+)`", cell)
    }
    assert documented == {
        (name, kind.family, kind.where) for name, kind in LISTED_KINDS.items() if kind.where is not Where.REAL
    }


def test_every_kind_that_ends_a_process_counts_for_systems_that_keep_records_in_memory() -> None:
    process = {name for name, kind in KINDS.items() if kind.family == "process"}
    assert process - ENDING_KINDS == {"pause", "cpu-starvation"}, "add it to ENDING_KINDS in history/contract.py"
