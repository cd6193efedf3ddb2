"""Lists every way to take a rule out of the broker: rules and places from the protocol's page, changes from the source.

A rule's places are the functions of broker/core that name its id (`docs.protocol.places`). Flaws are ways too: each
replaces methods of rules.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from broker.core.rules.flaws import FLAWS, Flaw
from docs.protocol import ROOT, named_in, places
from history.protocol import protocol_rules
from tests.broker.without_rules.changes import Change, conditions, whole
from tests.broker.without_rules.sources import compiled, definition, function_at
from tests.broker.without_rules.tables import ANSWERS, NO_WAY

CORE = "broker/core/"
_FLAWS = "broker/core/rules/flaws/"
RULES = "broker/core/rules/"


@dataclass(frozen=True)
class Mutant:
    """The broker without one decision."""

    rules: tuple[str, ...]
    """Ids that the function names."""
    where: str
    """Module and function, as in "controller/membership.py heartbeat"."""
    what: str
    """What is different, as in "if not known: False"; unique in `where`."""
    functions: tuple[types.FunctionType, ...] = field(repr=False)
    """The functions that are replaced; only a test that calls one of them can notice."""
    codes: tuple[types.CodeType, ...] = field(repr=False, default=())
    """What replaces them. Empty for a flaw."""
    flaw: Flaw | None = field(repr=False, default=None)

    @property
    def name(self) -> str:
        return f"{self.where}: {self.what}"

    @property
    def likely(self) -> tuple[str, ...]:
        """How ids of tests end that are likely to notice: schedules of flaws that replace one of the functions."""
        return tuple(f"[{flaw}]" for function in self.functions for flaw in _flaws_by_function().get(function, ()))

    def apply(self) -> None:
        """Take the decision out of this process, for good."""
        if self.flaw is not None:
            _plant(self.flaw)
        for function, code in zip(self.functions, self.codes, strict=False):
            function.__code__ = code


def rule_ids() -> list[str]:
    """Every rule that code must name, in the order of the protocol."""
    return [row.id for row in protocol_rules().values() if not row.is_property and not row.absent]


def not_taken_out(mutants: list[Mutant]) -> dict[str, str]:
    """The rules that no mutant takes out: why, or "" if nobody has said so."""
    taken = {rule for mutant in mutants for rule in mutant.rules}
    return {rule: NO_WAY.get(rule, "") for rule in rule_ids() if rule not in taken}


def all_mutants(root: Path = ROOT, *, thorough: bool = False) -> list[Mutant]:
    """Every mutant: those of rule objects, then those of flaws, then those of other functions.

    `thorough` takes the conditions of all functions apart, clause by clause, as otherwise only those of rule objects.
    """
    found = []
    for (module, name), rules in _functions(root).items():
        found += list(_of_function(root, module, name, tuple(rules), thorough=thorough))
    found += [_of_flaw(flaw) for flaw in FLAWS.values()]
    return sorted(found, key=lambda mutant: not mutant.where.startswith("rules/"))


def _functions(root: Path) -> dict[tuple[str, str], list[str]]:
    """(Module, function) -> ids of rules that it names."""
    known = rule_ids()
    found: dict[tuple[str, str], list[str]] = {}
    for rule, modules in places(root).items():
        if rule in known:
            for module, names in modules.items():
                if module.startswith(CORE) and not module.startswith(_FLAWS):
                    for name in names:
                        found.setdefault((module, name), []).append(rule)
    return {place: sorted(found[place], key=known.index) for place in sorted(found)}


def _of_function(root: Path, module: str, name: str, rules: tuple[str, ...], *, thorough: bool) -> Iterator[Mutant]:
    node = definition(root / module, name)
    if node is None:
        return
    where = f"{module.removeprefix(CORE)} {name}"
    function = function_at(module, name)
    for change in changes_of(node, name, every=thorough or module.startswith(RULES)):
        code = compiled(root / module, name, change.function)
        if code.co_code != function.__code__.co_code or code.co_consts != function.__code__.co_consts:
            yield Mutant(rules, where, change.what, (function,), (code,))


def changes_of(node: ast.FunctionDef, name: str, *, every: bool) -> Iterator[Change]:
    """All changes of a function, with `every` clause of its conditions or without."""
    yield from whole(node, ANSWERS.get(name, ()))
    yield from conditions(node, every=every)


# --- Flaws ------------------------------------------------------------------------------------------------------------


def _of_flaw(flaw: Flaw) -> Mutant:
    known = rule_ids()
    functions = tuple(function for care in flaw.without for _, function, _ in _overridden(care))
    texts = [
        text for care in flaw.without for _, base, new in _overridden(care) for text in (base.__doc__, new.__doc__)
    ]
    named = {rule for text in texts for rule in named_in(text or "")} & set(known)
    return Mutant(tuple(sorted(named, key=known.index)), "rules/flaws", flaw.name, functions, flaw=flaw)


def _overridden(care: type) -> list[tuple[str, types.FunctionType, types.FunctionType]]:
    """(Name, the rule's method, the flaw's method) of each method that a flaw replaces."""
    base = care.__bases__[0]
    return [
        (name, inspect.getattr_static(base, name), new)
        for name, new in vars(care).items()
        if isinstance(new, types.FunctionType)
    ]


@functools.cache
def _flaws_by_function() -> dict[types.FunctionType, list[str]]:
    found: dict[types.FunctionType, list[str]] = {}
    for flaw in FLAWS.values():
        for care in flaw.without:
            for _, function, _ in _overridden(care):
                found.setdefault(function, []).append(flaw.name)
    return found


def _plant(flaw: Flaw) -> None:
    """Put the flaw's methods into the classes of the rules themselves, for every object of them."""
    for care in flaw.without:
        originals = dict(inspect.getmembers(care.__bases__[0], inspect.isfunction))
        for name, _, new in _overridden(care):
            scope = {**new.__globals__, "super": functools.partial(_parent, originals)}
            planted = types.FunctionType(new.__code__, scope, new.__name__, new.__defaults__, new.__closure__)
            planted.__kwdefaults__ = new.__kwdefaults__
            setattr(care.__bases__[0], name, planted)


def _parent(originals: Mapping[str, Callable[..., object]]) -> types.SimpleNamespace:
    """What `super()` is to a flaw's method in the rule's own class: the methods that the class had before."""
    caller = sys._getframe(1).f_locals["self"]
    return types.SimpleNamespace(**{name: types.MethodType(method, caller) for name, method in originals.items()})
