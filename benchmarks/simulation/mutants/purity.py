"""Tells whether an expression can be evaluated once more without an effect, and what statements read and write.

A variable is a dotted path, as in "self.log.end_offset". Attributes count as values, although some are properties:
those of broker/core compute their value, and remember at most that.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

_PURE_FUNCTIONS = frozenset(
    (
        *("abs", "all", "any", "bool", "bytes", "dict", "frozenset", "int", "isinstance", "len", "list", "max", "min"),
        *("range", "set", "sorted", "str", "sum", "tuple"),
    )
)
_PURE_METHODS = frozenset(
    ("count", "endswith", "get", "index", "intersection", "issubset", "items", "keys", "startswith", "union", "values")
)
_CONSUMERS = frozenset(("all", "any", "dict", "frozenset", "list", "max", "min", "set", "sorted", "sum", "tuple"))
"""Functions that read a generator to its end, so that the generator is part of the call."""

_ITERATORS = frozenset(("array", "enumerate", "map", "reversed", "zip"))

_NEVER_PURE = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, ast.Lambda, ast.GeneratorExp, ast.Starred)


def is_pure(node: ast.expr) -> bool:
    """Whether the expression has no effect and its value is no iterator. Methods of rule objects only decide."""
    if isinstance(node, ast.Call):
        return _is_pure_call(node)
    if isinstance(node, _NEVER_PURE):
        return False
    return all(is_pure(child) for child in _expressions(node))


def _is_pure_call(node: ast.Call) -> bool:
    match node.func:
        case ast.Name(name):
            if name not in _PURE_FUNCTIONS:
                return False
        case ast.Attribute(receiver, name):
            if name not in _PURE_METHODS and "rules" not in (path_of(receiver) or "").split("."):
                return False
            if not is_pure(receiver):
                return False
        case _:
            return False
    consumes = isinstance(node.func, ast.Name) and node.func.id in _CONSUMERS
    return all(
        all(map(is_pure, _expressions(given))) if consumes and isinstance(given, ast.GeneratorExp) else is_pure(given)
        for given in (*node.args, *(keyword.value for keyword in node.keywords))
    )


def _expressions(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions directly below, those of comprehensions' clauses included."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield child
        elif isinstance(child, ast.comprehension | ast.keyword | ast.Slice):
            yield from _expressions(child)


def path_of(node: ast.AST) -> str | None:
    """The dotted path of a name, an attribute, or the container of an item; None of anything else."""
    match node:
        case ast.Name(name):
            return name
        case ast.Attribute(value, name):
            before = path_of(value)
            return None if before is None else f"{before}.{name}"
        case ast.Subscript(value, _):
            return path_of(value)
    return None


def writes(statement: ast.stmt) -> set[str]:
    """Paths that the statement assigns or deletes."""
    return {path for target in targets(statement) for one in _flat(target) if (path := path_of(one)) is not None}


def targets(statement: ast.stmt) -> list[ast.expr]:
    """What an assignment or `del` changes."""
    match statement:
        case ast.Assign(found) | ast.Delete(found):
            return found
        case ast.AugAssign(target) | ast.AnnAssign(target):
            return [target]
    return []


def _flat(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        for one in target.elts:
            yield from _flat(one)
    else:
        yield target


def reads(statement: ast.AST) -> set[str]:
    """Paths that the statement reads; of `a.b.c` the whole path alone."""
    found = writes(statement) if isinstance(statement, ast.AugAssign) else set()
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        path = path_of(node)
        if path is None:
            waiting += ast.iter_child_nodes(node)
            continue
        if isinstance(node, ast.Subscript):
            waiting.append(node.slice)
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Load):
            found.add(path)
    return found


def called_on(statement: ast.stmt) -> set[str]:
    """Objects whose methods the statement calls with some effect: they may be different afterwards."""
    found = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not is_pure(node):
            path = path_of(node.func.value)
            if path is not None:
                found.add(path)
    return found


def passed_by(statement: ast.stmt) -> set[str]:
    """Variables that the statement hands to functions, which may change their attributes."""
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call) and not is_pure(node)]
    return {one.id for call in calls for one in call.args if isinstance(one, ast.Name)}


def reads_part(value: ast.expr, names: set[str]) -> bool:
    """Whether the expression reads an attribute of one of the variables."""
    return any("." in path and path.split(".")[0] in names for path in reads(value))


def overlap(some: set[str], others: set[str]) -> bool:
    """Whether one of `some` is one of `others`, a part of it, or its owner."""
    return any(
        one == other or one.startswith(other + ".") or other.startswith(one + ".") for one in some for other in others
    )


def has_effects(statement: ast.stmt) -> bool:
    """Whether the statement calls what may have an effect; that a class is called, which makes an object, is none."""
    return any(
        isinstance(node, ast.Call) and not is_pure(node) and not _makes_object(node) for node in ast.walk(statement)
    )


def _makes_object(node: ast.Call) -> bool:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    return name in _ITERATORS or name in _PURE_FUNCTIONS or name[:1].isupper()
