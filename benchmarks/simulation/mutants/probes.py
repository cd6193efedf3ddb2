"""Records, in one simulation of the correct broker, which mutants would have acted differently.

Each changed expression is evaluated both ways, and the program goes on with the original's value. So that this has no
effects, only pure expressions are (`purity.py`); of others, and of changed statements, it counts that they are reached.
The largest pure expression around the change is compared: a bound that is one off is no difference if the comparison
comes out the same. An assignment that is left out acts differently if the variable had another value before.
"""

from __future__ import annotations

import ast
import copy
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from benchmarks.simulation.mutants.making import MutatedFunction
from benchmarks.simulation.mutants.operators import DROPPED, FORGOTTEN, Change
from benchmarks.simulation.mutants.planting import forgetting
from benchmarks.simulation.mutants.purity import is_pure, path_of, targets
from docs.protocol import ROOT
from tests.broker.without_rules.sources import compiled, function_at

_NAME = "_mutant_probe"
_ATOMS = (bool, int, float, str, bytes, type(None), Enum)
_DISPLAYS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.List, ast.Set, ast.Dict)
_MAKERS = frozenset(("dict", "list", "set", "sorted"))
_MISSING = object()


@dataclass
class Probe:
    """What has been recorded, by the mutants' numbers."""

    reached: set[int] = field(default_factory=set)
    acted: set[int] = field(default_factory=set)
    _before: dict[int, object] = field(default_factory=dict)

    def reach(self, numbers: Sequence[int]) -> None:
        """The changed statements, or expressions that cannot be evaluated twice, are carried out now."""
        self.reached.update(numbers)
        self.acted.update(numbers)

    def value(
        self, numbers: Sequence[int], how: str, original: Callable[[], Any], others: Sequence[Callable[[], Any]]
    ) -> Any:
        """The original's value. `how` two values are compared: as "truth", "fresh" or "value"."""
        self.reached.update(numbers)
        if self.acted.issuperset(numbers):
            return original()
        try:
            value = original()
        except BaseException:
            self.acted.update(numbers)  # the others need not raise it
            raise
        for number, other in zip(numbers, others, strict=True):
            if number not in self.acted and not _equal(value, other, how):
                self.acted.add(number)
        return value

    def before(self, number: int, read: Callable[[], object]) -> None:
        """An assignment that the mutant leaves out comes now."""
        self.reached.add(number)
        self._before[number] = _read(read)

    def after(self, number: int, read: Callable[[], object]) -> None:
        """That assignment has been carried out."""
        if not _same(self._before.pop(number, _MISSING), _read(read), deep=False):
            self.acted.add(number)


def _read(read: Callable[[], object]) -> object:
    try:
        return read()
    except Exception:
        return _MISSING


def _equal(value: object, other: Callable[[], object], how: str) -> bool:
    try:
        found = other()
        if how == "truth":
            return bool(found) == bool(value)
        return _same(value, found, deep=how == "fresh")
    except Exception:
        return False


def _same(one: object, other: object, *, deep: bool) -> bool:
    """Whether no program could tell the values apart; with `deep`, new containers of the same items are the same."""
    if one is other:
        return one is not _MISSING
    if type(one) is not type(other):
        return False
    if isinstance(one, _ATOMS):
        return one == other
    if isinstance(one, tuple) or (deep and isinstance(one, list)):
        assert isinstance(other, tuple | list)
        return len(one) == len(other) and all(_same(*pair, deep=False) for pair in zip(one, other, strict=True))
    if isinstance(one, frozenset) or (deep and isinstance(one, set)):
        return one == other and all(isinstance(item, (*_ATOMS, tuple)) for item in one)
    if deep and isinstance(one, dict):
        assert isinstance(other, dict)
        return list(one) == list(other) and all(_same(one[key], other[key], deep=False) for key in one)
    return False


# --- functions with probes -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Instrumented:
    """All functions with probes; `probing` puts them in the place of the original ones."""

    codes: Mapping[types.FunctionType, types.CodeType]
    forget: Sequence[Callable[[], None]] = ()
    """Empty the caches of functions that remember results: they, and what they call, would not be called otherwise."""

    def probing(self, simulate: Callable[[], Any]) -> tuple[Any, Probe]:
        """The result of `simulate`, with what its probes recorded."""
        probe = Probe()
        originals = {function: function.__code__ for function in self.codes}
        try:
            for function, code in self.codes.items():
                function.__globals__[_NAME] = probe
                function.__code__ = code
            for forget in self.forget:
                forget()
            return simulate(), probe
        finally:
            for function, original in originals.items():
                function.__code__ = original


def instrumented(mutated: Sequence[MutatedFunction], root: Path = ROOT) -> Instrumented:
    """Functions with a probe for each mutant; mutants are numbered in their order, from 0."""
    codes = {}
    modules: dict[int, Mapping[str, Any]] = {}
    number = 0
    for function in mutated:
        numbered = [(number + index, made.change) for index, made in enumerate(function.made)]
        node = with_probes(function.node, numbered)
        found = function_at(function.module, function.name)
        codes[found] = compiled(root / function.module, function.name, node)
        modules[id(found.__globals__)] = found.__globals__
        number += len(numbered)
    return Instrumented(codes, [forget for names in modules.values() for forget in forgetting(names)])


def with_probes(function: ast.FunctionDef, changes: Sequence[tuple[int, Change]]) -> ast.FunctionDef:
    """A copy of the function with probes for numbered changes of it."""
    parents = {child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}
    wrapping: dict[ast.expr, list[tuple[int, ast.expr]]] = {}
    reaching: dict[ast.AST, list[int]] = {}
    assigning: dict[ast.AST, int] = {}
    for number, change in changes:
        if change.new is None:
            if change.operator in (DROPPED, FORGOTTEN) and _is_plain_assignment(change.node):
                assigning[change.node] = number
            else:
                reaching.setdefault(change.node, []).append(number)
        else:
            assert isinstance(change.node, ast.expr)
            site = _site(change.node, parents)
            if site is None:
                reaching.setdefault(_reading(change.node, parents), []).append(number)
            else:
                other = _replaced(site, change.node, change.new)
                wrapping.setdefault(site, []).append((number, other))
    how = {site: _how(site, parents) for site in wrapping}
    return _Writer(wrapping, reaching, assigning, how).function(function)


def _is_plain_assignment(node: ast.AST) -> bool:
    """Whether the statement only gives one variable a value that has no other effect."""
    if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None or not is_pure(node.value):
        return False
    found = targets(node)
    return len(found) == 1 and isinstance(found[0], ast.Name | ast.Attribute | ast.Subscript) and is_pure(found[0])


def _site(node: ast.expr, parents: Mapping[ast.AST, ast.AST]) -> ast.expr | None:
    """The largest pure expression around the changed one; None if that itself is not pure."""
    found: ast.expr | None = None
    current: ast.AST = node
    while isinstance(current, ast.expr | ast.comprehension | ast.keyword):
        if isinstance(current, ast.expr):
            if not isinstance(getattr(current, "ctx", ast.Load()), ast.Load):
                break
            if isinstance(current, ast.Lambda):
                break
            if is_pure(current) and not isinstance(current, ast.Slice):
                found = current
            elif not isinstance(current, ast.GeneratorExp | ast.Slice):
                break
        current = parents[current]
    return found


def _reading(node: ast.expr, parents: Mapping[ast.AST, ast.AST]) -> ast.expr:
    """The smallest expression around `node` in whose place a probe may stand."""
    current: ast.AST = node
    while not isinstance(current, ast.expr) or isinstance(current, ast.Slice):
        current = parents[current]
    return current


def _how(site: ast.expr, parents: Mapping[ast.AST, ast.AST]) -> str:
    """How two values of the expression are compared: only their truth counts where it is a condition."""
    current: ast.AST = site
    while isinstance(parents[current], ast.BoolOp) or (
        isinstance(parents[current], ast.UnaryOp) and isinstance(parents[current].op, ast.Not)  # type: ignore[attr-defined]
    ):
        current = parents[current]
    parent = parents[current]
    if current is getattr(parent, "test", None) or current is getattr(parent, "guard", None):
        return "truth"
    if isinstance(parent, ast.comprehension) and current in parent.ifs:
        return "truth"
    return "fresh" if _is_fresh(site) else "value"


def _is_fresh(node: ast.expr) -> bool:
    """Whether the value of the expression is a container that nothing else holds."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in _MAKERS
    return isinstance(node, _DISPLAYS) or (isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice))


def _replaced(site: ast.expr, node: ast.expr, new: ast.expr) -> ast.expr:
    """A copy of `site` with `new` in the place of `node`."""
    return copy.deepcopy(new) if site is node else copy.deepcopy(site, {id(node): copy.deepcopy(new)})


@dataclass(frozen=True)
class _Writer:
    wrapping: Mapping[ast.expr, Sequence[tuple[int, ast.expr]]]
    reaching: Mapping[ast.AST, Sequence[int]]
    assigning: Mapping[ast.AST, int]
    how: Mapping[ast.expr, str]

    def function(self, node: ast.FunctionDef) -> ast.FunctionDef:
        found = copy.copy(node)
        found.body = list(self._statements(node.body))
        return ast.fix_missing_locations(found)

    def _statements(self, body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
        for statement in body:
            numbers = self.reaching.get(statement)
            if numbers:
                yield _call("reach", _numbers(numbers))
            number = self.assigning.get(statement)
            target = _loaded(targets(statement)[0]) if number is not None else None
            if target is not None:
                yield _call("before", ast.Constant(number), _lambda(target))
            yield self._copied(statement)
            if target is not None:
                yield _call("after", ast.Constant(number), _lambda(_loaded(target)))

    def _copied(self, node: Any) -> Any:
        """A copy of the node with probes."""
        found = copy.copy(node)
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                statements = bool(value) and isinstance(value[0], ast.stmt)
                items = self._statements(value) if statements else map(self._item, value)
                setattr(found, name, list(items))
            else:
                setattr(found, name, self._item(value))
        return self._probed(node, found) if isinstance(node, ast.expr) else found

    def _item(self, value: Any) -> Any:
        return self._copied(value) if isinstance(value, ast.AST) else value

    def _probed(self, node: ast.expr, found: ast.expr) -> ast.expr:
        numbers = self.reaching.get(node)
        if numbers:
            reach = _call("reach", _numbers(numbers))
            found = ast.BoolOp(ast.Or(), [reach.value, found])
        others = self.wrapping.get(node)
        if not others:
            return found
        lambdas = ast.Tuple([_lambda(other) for _, other in others], ast.Load())
        given = _numbers([number for number, _ in others]), ast.Constant(self.how[node]), _lambda(found), lambdas
        return _call("value", *given).value


def _numbers(numbers: Sequence[int]) -> ast.expr:
    return ast.Tuple([ast.Constant(number) for number in numbers], ast.Load())


def _call(method: str, *arguments: ast.expr) -> ast.Expr:
    probe = ast.Attribute(ast.Name(_NAME, ast.Load()), method, ast.Load())
    return ast.Expr(ast.Call(probe, list(arguments), []))


def _lambda(body: ast.expr) -> ast.Lambda:
    return ast.Lambda(ast.arguments([], [], None, [], [], None, []), body)


def _loaded(target: ast.expr) -> ast.expr:
    """The value of what is assigned to."""
    found = ast.parse(ast.unparse(target), mode="eval").body
    assert path_of(found) is not None
    return found
