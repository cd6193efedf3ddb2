"""Makes the changes that people commit by mistake, one at a time, in the source of a function.

| operator | change |
|---|---|
| `comparison` | `<` and `<=`, `>` and `>=`, `==` and `!=`, `in` and `not in`, `is` and `is not` change places |
| `bound` | `+ 1` or `- 1` is left out; a compared number, an end of a slice or of a range is one off |
| `condition` | a condition is negated, or an operand of `and` or `or` is left out |
| `min-max` | `min` becomes `max`, and back |
| `dropped-statement` | an assignment or a call is left out |
| `forgotten-write` | such a statement that writes, deletes or syncs a file, or that asks for a flush |
| `dropped-exit` | a `return`, `raise`, `continue` or `break` inside of an `if` is left out |
| `stale-read` | two neighbouring statements change places, of which the second reads what the first changes |
| `reordered` | any other two neighbouring statements change places, unless the order obviously does not matter |

Marks, lines of the log, assertions, texts and annotations stay as they are.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from benchmarks.simulation.mutants.purity import (
    called_on,
    has_effects,
    overlap,
    passed_by,
    reads,
    reads_part,
    targets,
    writes,
)
from tests.broker.without_rules.changes import BOUNDARIES, only_tells

COMPARISON, BOUND, CONDITION, MIN_MAX = "comparison", "bound", "condition", "min-max"
DROPPED, FORGOTTEN, EXIT, STALE, REORDERED = (
    *("dropped-statement", "forgotten-write", "dropped-exit", "stale-read", "reordered"),
)
OPERATORS = (COMPARISON, BOUND, CONDITION, MIN_MAX, DROPPED, FORGOTTEN, EXIT, STALE, REORDERED)

_OPPOSITES: Mapping[type[ast.cmpop], type[ast.cmpop]] = MappingProxyType(
    {
        **BOUNDARIES,
        ast.Eq: ast.NotEq,
        ast.NotEq: ast.Eq,
        ast.In: ast.NotIn,
        ast.NotIn: ast.In,
        ast.Is: ast.IsNot,
        ast.IsNot: ast.Is,
    }
)
_SYMBOLS: Mapping[type[ast.cmpop], str] = MappingProxyType(
    {
        ast.Lt: "<",
        ast.LtE: "<=",
        ast.Gt: ">",
        ast.GtE: ">=",
        ast.Eq: "==",
        ast.NotEq: "!=",
        ast.In: "in",
        ast.NotIn: "not in",
        ast.Is: "is",
        ast.IsNot: "is not",
    }
)
_SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete)
_EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_LOOSE = (ast.IfExp, ast.Lambda, ast.NamedExpr, ast.BoolOp)
"""Expressions that need parentheses in the place of others."""

Position = tuple[int, int]
"""Line, from 1, and byte in the line, from 0."""


@dataclass(frozen=True)
class Change:
    """A change: of the expression `node` to `new`; or, without `new`, of the statement `node` and perhaps the next."""

    operator: str
    node: ast.AST
    new: ast.expr | None
    begin: Position
    end: Position
    text: str
    """What stands between `begin` and `end` then."""


@dataclass(frozen=True)
class _Finder:
    function: ast.FunctionDef
    lines: Sequence[bytes]
    writers: frozenset[str]
    found: list[Change] = field(default_factory=list)

    # --- statements --------------------------------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt], known: frozenset[str]) -> None:
        """All changes in a list of statements, before which the local variables `known` have values."""
        for index, statement in enumerate(body):
            following = body[index + 1] if index + 1 < len(body) else None
            if _is_subject(statement):
                self._statement(statement, known, alone=len(body) == 1, followed=following is not None)
            if isinstance(statement, _SIMPLE) and isinstance(following, _SIMPLE):
                self._swap(statement, following, known)
            known |= _names(statement, ast.Store)

    def _statement(self, statement: ast.stmt, known: frozenset[str], *, alone: bool, followed: bool) -> None:
        if isinstance(statement, _SIMPLE) and _may_be_dropped(statement, known):
            self._drop(FORGOTTEN if _calls(statement, self.writers) else DROPPED, statement, alone)
        if isinstance(statement, ast.If):
            self._exit(statement, followed=followed)
        self._expressions_of(statement)
        inside = known | {name for one in _heads(statement) for name in _names(one, ast.Store)}
        for name in ("body", "orelse", "finalbody"):
            self.block(getattr(statement, name, []), inside)
        for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            self.block(part.body, inside | _names(part, ast.Store))
            if isinstance(part, ast.match_case) and part.guard is not None:
                self._test(part.guard)

    def _drop(self, operator: str, statement: ast.stmt, alone: bool) -> None:
        assert statement.end_lineno is not None
        assert statement.end_col_offset is not None
        if alone:
            end = (statement.end_lineno, statement.end_col_offset)
            self.found.append(Change(operator, statement, None, (statement.lineno, statement.col_offset), end, "pass"))
        else:
            whole = (statement.lineno, 0), (statement.end_lineno + 1, 0)
            self.found.append(Change(operator, statement, None, *whole, ""))

    def _exit(self, statement: ast.If, *, followed: bool) -> None:
        last = statement.body[-1]
        if isinstance(last, _EXITS) and (followed or isinstance(last, ast.Raise)) and not statement.orelse:
            self._drop(EXIT, last, len(statement.body) == 1)

    def _swap(self, first: ast.stmt, second: ast.stmt, known: frozenset[str]) -> None:
        if not (_is_subject(first) and _is_subject(second)):
            return
        if overlap({path for path in writes(first) if "." not in path} - known, reads(second)):
            return
        value = (
            getattr(second, "value", None) if isinstance(second, ast.Assign | ast.AnnAssign | ast.AugAssign) else None
        )
        stale = value is not None and (overlap(called_on(first), reads(value)) or reads_part(value, passed_by(first)))
        depends = overlap(writes(second) | called_on(second), reads(first)) or overlap(writes(first), writes(second))
        if stale or overlap(writes(first), reads(second)):
            operator = STALE
        elif depends or (has_effects(first) and has_effects(second)):
            operator = REORDERED
        else:
            return
        begin, middle, last = _begin(first), _end(first), _begin(second)
        text = self._text(last, _end(second)) + self._text(middle, last) + self._text(begin, middle)
        self.found.append(Change(operator, first, None, begin, _end(second), text))

    # --- expressions -------------------------------------------------------------------------------------------------

    def _expressions_of(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.If | ast.While):
            self._test(statement.test)
            return
        for name, value in ast.iter_fields(statement):
            if name == "annotation":
                continue
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, ast.expr):
                    self._expression(one)
                elif isinstance(one, ast.withitem):
                    self._expression(one.context_expr)

    def _test(self, node: ast.expr) -> None:
        told_apart = isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) not in BOUNDARIES
        if not isinstance(node, ast.UnaryOp) and not told_apart:
            self._replace(CONDITION, node, ast.UnaryOp(ast.Not(), node))
        self._expression(node)

    def _expression(self, node: ast.expr) -> None:
        match node:
            case ast.JoinedStr():
                return
            case ast.Compare():
                self._compare(node)
            case ast.BoolOp():
                for index in range(len(node.values)):
                    rest = [value for number, value in enumerate(node.values) if number != index]
                    self._replace(CONDITION, node, rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest))
            case ast.UnaryOp(ast.Not(), operand):
                self._replace(CONDITION, node, operand)
            case ast.BinOp(left, ast.Add() | ast.Sub(), ast.Constant(1)):
                self._replace(BOUND, node, left)
            case ast.Call(ast.Name("min" | "max" as name)):
                other = copy.copy(node)
                other.func = ast.Name("max" if name == "min" else "min", ast.Load())
                self._replace(MIN_MAX, node, other, (node.func, other.func.id))
            case ast.Call(ast.Name("range"), [*_, last]):
                self._one_off(last, ast.Sub())
            case ast.Subscript(_, ast.Slice(lower, upper)):
                if lower is not None:
                    self._one_off(lower, ast.Add())
                if upper is not None:
                    self._one_off(upper, ast.Sub())
            case ast.IfExp():
                self._test(node.test)
                self._expression(node.body)
                self._expression(node.orelse)
                return
        self._below(node)

    def _below(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._expression(child)
            elif isinstance(child, ast.comprehension):
                self._expression(child.iter)
                for test in child.ifs:
                    self._test(test)
            elif isinstance(child, ast.keyword):
                self._expression(child.value)

    def _compare(self, node: ast.Compare) -> None:
        left = node.left
        for index, (operator, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            opposite = _OPPOSITES[type(operator)]
            other = copy.copy(node)
            other.ops = [opposite() if number == index else one for number, one in enumerate(node.ops)]
            begin, end = _end(left), _begin(right)
            pattern = r"\s+".join(map(re.escape, _SYMBOLS[type(operator)].split()))
            text = re.sub(pattern, _SYMBOLS[opposite], self._text(begin, end), count=1)
            self.found.append(Change(COMPARISON, node, other, begin, end, text))
            if isinstance(right, ast.Constant) and type(right.value) is int and type(operator) in BOUNDARIES:
                self._replace(BOUND, right, ast.Constant(right.value + 1))
            left = right

    def _one_off(self, node: ast.expr, operator: ast.operator) -> None:
        known = isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant) and node.right.value == 1
        if not known and not isinstance(node, ast.UnaryOp):
            self._replace(BOUND, node, ast.BinOp(node, operator, ast.Constant(1)))

    def _replace(self, operator: str, node: ast.expr, new: ast.expr, edit: tuple[ast.expr, str] | None = None) -> None:
        """Another expression for `node`. `edit` says what is written, and in whose place, if it is less than that."""
        place, text = edit or (node, ast.unparse(new))
        is_shorter = isinstance(new, ast.BoolOp) and isinstance(node, ast.BoolOp) and new.op is node.op
        if isinstance(new, _LOOSE) and not is_shorter:
            text = f"({text})"
        self.found.append(Change(operator, node, new, _begin(place), _end(place), text))

    def _text(self, begin: Position, end: Position) -> str:
        if begin[0] == end[0]:
            return self.lines[begin[0] - 1][begin[1] : end[1]].decode()
        parts = [self.lines[begin[0] - 1][begin[1] :], *self.lines[begin[0] : end[0] - 1]]
        return b"".join([*parts, self.lines[end[0] - 1][: end[1]]]).decode()


def changes(function: ast.FunctionDef, source: str, writers: frozenset[str] = frozenset()) -> Iterator[Change]:
    """Every change of the function, which was parsed from `source`; `writers` are names of functions that write."""
    finder = _Finder(function, source.encode().splitlines(keepends=True), writers)
    finder.block(function.body, _parameters(function))
    yield from finder.found


def _is_subject(statement: ast.stmt) -> bool:
    """Whether the statement is changed at all."""
    if only_tells(statement) or isinstance(statement, ast.Assert | ast.Raise | ast.FunctionDef | ast.ClassDef):
        return False
    return not isinstance(statement, ast.Expr) or isinstance(statement.value, ast.Call)


def _may_be_dropped(statement: ast.stmt, known: frozenset[str]) -> bool:
    """Whether what follows can still run: what the statement assigns is there already."""
    if isinstance(statement, ast.AnnAssign) and statement.value is None:
        return False
    names = {one.id for target in targets(statement) for one in ast.walk(target) if isinstance(one, ast.Name)}
    return names <= known


def _parameters(function: ast.FunctionDef) -> frozenset[str]:
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return frozenset(one.arg for one in every if one is not None)


def _heads(statement: ast.stmt) -> list[ast.AST]:
    """The parts of a loop or `with` that bind names before its body begins."""
    return [statement.target] if isinstance(statement, ast.For) else list(getattr(statement, "items", []))


def _names(node: ast.AST, context: type[ast.expr_context]) -> frozenset[str]:
    found = {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, context)}
    found |= {one.name for one in ast.walk(node) if isinstance(one, ast.MatchAs | ast.ExceptHandler) and one.name}
    return frozenset(found)


def _calls(statement: ast.stmt, names: frozenset[str]) -> bool:
    return any(
        isinstance(node, ast.Call) and (_is_file_write(node) or _name(node) == "Flush" or _name(node) in names)
        for node in ast.walk(statement)
    )


FILE_WRITES = frozenset(("append", "truncate", "replace", "rename", "delete", "sync"))
"""Methods of `broker.core.ports.files.Files` that change a disk."""


def _is_file_write(node: ast.Call) -> bool:
    return (
        isinstance(node.func, ast.Attribute)
        and node.func.attr in FILE_WRITES
        and ast.unparse(node.func.value).split(".")[-1].strip("_") == "files"
    )


def _name(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def asks_for_write(function: ast.FunctionDef) -> bool:
    """Whether the function itself writes, deletes or syncs a file, or asks for a flush."""
    return any(
        isinstance(node, ast.Call) and (_is_file_write(node) or _name(node) == "Flush") for node in ast.walk(function)
    )


def _begin(node: ast.stmt | ast.expr) -> Position:
    return node.lineno, node.col_offset


def _end(node: ast.stmt | ast.expr) -> Position:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset
