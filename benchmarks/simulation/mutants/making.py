"""Lists all mutants of broker/core, and samples them evenly over operators and modules."""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.simulation.mutants.operators import OPERATORS, Change, asks_for_write, changes
from docs.protocol import ROOT

CORE = "broker/core"
LEFT_OUT = (
    "broker/core/rules/flaws/",
    "broker/core/rules/generations.py",
    "broker/core/messages/",
    "broker/core/ports/",
    "broker/core/configuration/description.py",
    "broker/core/broker_node/inspection.py",
)
"""Other protocol versions, data, interfaces, and what only describes a node to an operator."""

_PACKAGES = ("broker", "simulation", "history", "common", "nemesis")
_COMMON = frozenset(("append", "add", "copy", "open", "update", "handle", "truncate", "delete", "close", "forget"))
"""Names that many functions have, so that a call of that name need not be of one that writes."""

_HEX_DIGITS = 6


class Mutant(NamedTuple):
    """The broker with one mistake."""

    id: str
    """Module, function, operator and a hash of the change: the same as long as the function's part is the same."""
    module: str
    """Path from the root of the repository."""
    function: str
    """As in "Class.method"."""
    line: int
    operator: str
    begin: int
    end: int
    text: str
    """What stands in the place of the module's bytes from `begin` to `end`."""
    diff: str
    """The changed lines, with - and + before them."""

    def applied(self, source: str) -> str:
        """The module with the mistake."""
        data = source.encode()
        return (data[: self.begin] + self.text.encode() + data[self.end :]).decode()


class Made(NamedTuple):
    """A mutant, and the change of its function's syntax tree."""

    mutant: Mutant
    change: Change


class MutatedFunction(NamedTuple):
    """A function with its mutants."""

    module: str
    name: str
    node: ast.FunctionDef
    made: tuple[Made, ...]


def all_mutants(root: Path = ROOT, folder: str = CORE) -> list[Mutant]:
    """Every mutant of the modules in the folder, in the order of the sources."""
    return [made.mutant for function in mutated_functions(root, folder) for made in function.made]


def mutated_functions(root: Path = ROOT, folder: str = CORE) -> Iterator[MutatedFunction]:
    """Every function of the modules in the folder that has mutants, in the order of the sources."""
    paths = [path.relative_to(root).as_posix() for path in sorted((root / folder).rglob("*.py"))]
    sources = {path: (root / path).read_text(encoding="utf-8") for path in paths if not path.startswith(LEFT_OUT)}
    trees = {path: ast.parse(source) for path, source in sources.items()}
    names = {node.name for tree in trees.values() for _, node in functions(tree) if asks_for_write(node)}
    for path, source in sources.items():
        yield from of_module(path, source, trees[path], frozenset(names - _COMMON))


def of_module(path: str, source: str, tree: ast.Module, writers: frozenset[str]) -> Iterator[MutatedFunction]:
    """The functions of one module, which was parsed from `source`. `writers` are names of functions that write."""
    lines = source.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    for name, function in functions(tree):
        known: Counter[str] = Counter()
        made = []
        for change in changes(function, source, writers):
            begin, end = (starts[line - 1] + byte for line, byte in (change.begin, change.end))
            diff = _diff(lines, change)
            known[diff] += 1
            text = f"{change.operator} {diff} {known[diff]}"
            digest = hashlib.sha256(text.encode()).hexdigest()[:_HEX_DIGITS]
            short = path.removeprefix(f"{CORE}/").removesuffix(".py")
            id_ = f"{short}:{name}:{change.operator}:{digest}"
            mutant = Mutant(id_, path, name, change.begin[0], change.operator, begin, end, change.text, diff)
            made.append(Made(mutant, change))
        if made:
            yield MutatedFunction(path, name, function, tuple(made))


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """(Name, definition) of the functions of a module and the methods of its classes, setters excepted."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for child in node.body:
                if isinstance(child, ast.FunctionDef) and not any(
                    isinstance(one, ast.Attribute) and one.attr == "setter" for one in child.decorator_list
                ):
                    yield f"{node.name}.{child.name}", child


def _diff(lines: Sequence[bytes], change: Change) -> str:
    (first, before), (last, after) = change.begin, change.end
    rest = lines[last - 1][after:] if after else b""
    old = b"".join(lines[first - 1 : last if after else last - 1]).decode()
    new = (lines[first - 1][:before] + change.text.encode() + rest).decode()
    return "\n".join([*(f"-{line}" for line in old.splitlines()), *(f"+{line}" for line in new.splitlines())])


def sample(mutants: Iterable[Mutant], count: int, seed: int) -> list[Mutant]:
    """`count` mutants: operators in turn, and of each the mutant whose module has had the fewest so far.

    Equal seeds sample equal mutants, and a smaller sample is the beginning of a larger one.
    """
    waiting: dict[str, list[Mutant]] = {operator: [] for operator in OPERATORS}
    for mutant in sorted(mutants, key=lambda one: hashlib.sha256(f"{seed} {one.id}".encode()).digest()):
        waiting[mutant.operator].append(mutant)
    had: Counter[str] = Counter()
    found: list[Mutant] = []
    while len(found) < count and any(waiting.values()):
        for operator in OPERATORS:
            if waiting[operator] and len(found) < count:
                mutant = min(waiting[operator], key=lambda one: had[one.module])
                waiting[operator].remove(mutant)
                had[mutant.module] += 1
                found.append(mutant)
    return found


def fingerprint(mutants: Iterable[Mutant], root: Path = ROOT) -> str:
    """A hash of the mutants and of the sources that decide what a seed shows."""
    total = hashlib.sha256("\n".join(mutant.id for mutant in mutants).encode())
    for package in _PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            total.update(f"{path.relative_to(root).as_posix()}\n".encode())
            total.update(path.read_bytes())
    return total.hexdigest()[:16]
