"""Takes decisions out of a function's source: its whole body, one of its conditions, a clause, a bound, a step.

A change never deletes what it replaces: the old expression stays where it is no longer evaluated. So the compiled
function has the free variables of the old one, and its code can be put into the running program.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from typing import NamedTuple

BOUNDARIES = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_NEUTRAL = {"None": ("None",), "bool": ("True", "False"), "ErrorCode": ("ErrorCode.NONE",), "dict": ("{}",)}


class Change(NamedTuple):
    """A function without one decision. `what` says which, and is unique in the function."""

    what: str
    function: ast.FunctionDef


def whole(function: ast.FunctionDef, expressions: tuple[str, ...] = ()) -> Iterator[Change]:
    """The function answers at once: with each of `expressions` or, if there are none, what its return type suggests."""
    for expression in expressions or neutral_answers(function):
        changed = copy.deepcopy(function)
        answer = ast.parse(f"def f():\n return {expression}").body[0]
        assert isinstance(answer, ast.FunctionDef)
        first = 1 if ast.get_docstring(function) is not None else 0
        changed.body.insert(first, answer.body[0])
        yield Change(f"return {expression}", changed)


def neutral_answers(function: ast.FunctionDef) -> tuple[str, ...]:
    """What a function may answer without deciding anything, as source; () if its return type does not tell."""
    if function.returns is None or function.name == "__init__":
        return ()
    returns = ast.unparse(function.returns)
    if returns in _NEUTRAL:
        return _NEUTRAL[returns]
    if returns.endswith("| None"):
        return ("None",)
    if returns.startswith("list["):
        return ("[]",)
    if returns.startswith("dict["):
        return ("{}",)
    if returns.startswith("frozenset["):
        return ("frozenset()",)
    if returns.startswith("tuple[") and returns.endswith(", ...]"):
        return ("()",)
    return ()


def conditions(function: ast.FunctionDef, *, every: bool) -> Iterator[Change]:
    """Each `if` never comes true, each `min` and `max` of two takes one of them, each `+ 1` is left out.

    With `every`, each `if` also always comes true, each clause of a condition is left out, and `<` becomes `<=`. What
    guards a return, a `continue` or an exception is not made true: that would take out what follows, not the guard.
    What only marks or logs is left alone.
    """
    counts: dict[str, int] = {}
    for path, node in _walk(function, ()):
        for what, replace in _replacements(node, every=every):
            counts[what] = counts.get(what, 0) + 1
            changed = copy.deepcopy(function)
            replace(_at(changed, path))
            ast.fix_missing_locations(changed)
            yield Change(what if counts[what] == 1 else f"{what} ({counts[what]})", changed)


_Step = tuple[str, int]


def _walk(node: ast.AST, path: tuple[_Step, ...]) -> Iterator[tuple[tuple[_Step, ...], ast.AST]]:
    if only_tells(node):
        return
    yield path, node
    for field, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            yield from _walk(value, (*path, (field, -1)))
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, ast.AST):
                    yield from _walk(item, (*path, (field, index)))


def only_tells(node: ast.AST) -> bool:
    """Whether nothing but a mark or a line of the log depends on it."""
    if isinstance(node, ast.If):
        return all(only_tells(one) for one in (*node.body, *node.orelse))
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        function = ast.unparse(node.value.func)
        return function.endswith(("runtime.mark", "runtime.log")) or function == "mark"
    return False


def _at(node: ast.AST, path: tuple[_Step, ...]) -> ast.AST:
    for field, index in path:
        value = getattr(node, field)
        node = value if index < 0 else value[index]
    return node


def _replacements(node: ast.AST, *, every: bool) -> Iterator[tuple[str, Callable[[ast.AST], None]]]:
    if isinstance(node, ast.If | ast.IfExp):
        test = ast.unparse(node.test)
        yield f"if {test}: False", lambda found: _set_test(found, value=False)
        if every and (isinstance(node, ast.IfExp) or not _guards(node)):
            yield f"if {test}: True", lambda found: _set_test(found, value=True)
    elif isinstance(node, ast.Call) and _is_bound(node):
        for index, other in enumerate(reversed(node.args)):
            yield f"without {ast.unparse(other)} in {ast.unparse(node)}", lambda found, index=index: _take(found, index)  # type: ignore[misc]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and ast.unparse(node.right) == "1":
        yield f"{ast.unparse(node)}: not + 1", _do_not_add
    elif not every:
        return
    elif isinstance(node, ast.BoolOp):
        for index, clause in enumerate(node.values):
            yield (
                f"without {'and' if isinstance(node.op, ast.And) else 'or'} {ast.unparse(clause)}",
                lambda found, index=index: _drop_clause(found, index),  # type: ignore[misc]
            )
    elif isinstance(node, ast.comprehension):
        for index, test_of in enumerate(node.ifs):
            yield f"for all, not if {ast.unparse(test_of)}", lambda found, index=index: _drop_if(found, index)  # type: ignore[misc]
    elif isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            if type(operator) in BOUNDARIES:
                yield (
                    f"boundary of {ast.unparse(node)}" + (f", {index + 1}" if index else ""),
                    (
                        lambda found, index=index: _move_boundary(found, index)  # type: ignore[misc]
                    ),
                )


def _guards(node: ast.If) -> bool:
    last = node.body[-1]
    return not node.orelse and isinstance(last, ast.Return | ast.Raise | ast.Continue | ast.Break)


def _is_bound(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id in ("min", "max") and len(node.args) == 2


def _take(node: ast.AST, index: int) -> None:
    assert isinstance(node, ast.Call)
    node.args[1 - index] = node.args[index]


def _do_not_add(node: ast.AST) -> None:
    assert isinstance(node, ast.BinOp)
    node.right = ast.Constant(0)


def _set_test(node: ast.AST, *, value: bool) -> None:
    assert isinstance(node, ast.If | ast.IfExp)
    node.test = constant(node.test, value=value)


def _drop_clause(node: ast.AST, index: int) -> None:
    assert isinstance(node, ast.BoolOp)
    node.values[index] = constant(node.values[index], value=isinstance(node.op, ast.And))


def _drop_if(node: ast.AST, index: int) -> None:
    assert isinstance(node, ast.comprehension)
    node.ifs[index] = constant(node.ifs[index], value=True)


def _move_boundary(node: ast.AST, index: int) -> None:
    assert isinstance(node, ast.Compare)
    node.ops[index] = BOUNDARIES[type(node.ops[index])]()


def constant(expression: ast.expr, *, value: bool) -> ast.expr:
    """True or False, with the expression behind it, which is never evaluated."""
    operator = ast.Or() if value else ast.And()
    return ast.BoolOp(operator, [ast.Constant(value), expression])
