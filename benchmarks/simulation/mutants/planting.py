"""Puts a mutant into the running process: replaces the code of its function, for good or until it is taken out."""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.simulation.mutants.making import Mutant
from docs.protocol import ROOT
from tests.broker.without_rules.sources import compiled, definition_in, function_at


def code_of(mutant: Mutant, root: Path = ROOT) -> types.CodeType:
    """The code of the mutant's function."""
    path = root / mutant.module
    tree = ast.parse(mutant.applied(path.read_text(encoding="utf-8")))
    node = definition_in(tree, mutant.function)
    assert node is not None, mutant.id
    return compiled(path, mutant.function, node)


def function_of(mutant: Mutant) -> types.FunctionType:
    """The function of the running program that the mutant is about."""
    return function_at(mutant.module, mutant.function)


def plant(mutant: Mutant) -> None:
    """Put the mutant into this process, for good; what its module remembers was found without it."""
    function = function_of(mutant)
    function.__code__ = code_of(mutant)
    for forget in forgetting(function.__globals__):
        forget()


def forgetting(names: Mapping[str, Any]) -> list[Callable[[], None]]:
    """What empties the caches of a module's functions: they, and what they call, would not run else."""
    return [value.cache_clear for value in names.values() if hasattr(value, "cache_clear")]
