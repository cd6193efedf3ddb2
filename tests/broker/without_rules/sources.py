"""Finds functions of the running program in their sources, and puts other code into them."""

from __future__ import annotations

import ast
import copy
import functools
import importlib
import inspect
import types
from pathlib import Path
from typing import Any

from docs.protocol import ROOT

_CALLED = "_called_without_rules"

_OF_CLASS = {"super", "__class__"}
"""Names that make a method refer to its class, which is then a variable of its closure."""


def function_at(module: str, name: str) -> types.FunctionType:
    """The function that the running program calls. `module` is a path, `name` as in "Class.method"."""
    found: Any = importlib.import_module(module.removesuffix(".py").replace("/", "."))
    for part in name.split("."):
        found = inspect.getattr_static(found, part)
    if isinstance(found, property):
        found = found.fget
    elif isinstance(found, staticmethod | classmethod):
        found = found.__func__
    found = inspect.unwrap(found)
    assert isinstance(found, types.FunctionType), f"{module} {name}"
    return found


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def definition(path: Path, name: str) -> ast.FunctionDef | None:
    """The function of that name in the module; None if it is a class."""
    return definition_in(_tree(path), name)


def definition_in(tree: ast.Module, name: str) -> ast.FunctionDef | None:
    """The function of that name in a module's syntax tree; None if it is a class."""
    body: list[ast.stmt] = tree.body
    for part in name.split("."):
        node = next(one for one in body if isinstance(one, ast.ClassDef | ast.FunctionDef) and one.name == part)
        body = node.body
    return node if isinstance(node, ast.FunctionDef) else None


def compiled(path: Path, name: str, function: ast.FunctionDef) -> types.CodeType:
    """The code of the changed function, as it is in its module. It fits the closure of the unchanged one."""
    *classes, _ = name.split(".")
    statement: ast.stmt = function
    original = definition(path, name)
    if original is not None and _names(original) & _OF_CLASS and not _names(function) & _OF_CLASS:
        statement = copy.deepcopy(function)
        statement.body += ast.parse("if False:\n    __class__").body
    for one in reversed(classes):
        statement = ast.ClassDef(one, bases=[], keywords=[], body=[statement], decorator_list=[])
    module = ast.fix_missing_locations(ast.Module(body=[statement], type_ignores=[]))
    code = compile(module, str(path), "exec", flags=_annotations(), dont_inherit=True)
    return _code_of(code, name)


def _names(function: ast.FunctionDef) -> set[str]:
    return {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}


def _annotations() -> int:
    import __future__

    return __future__.annotations.compiler_flag


def _code_of(code: types.CodeType, name: str) -> types.CodeType:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            if constant.co_qualname == name:
                return constant
            if name.startswith(constant.co_qualname + "."):
                return _code_of(constant, name)
    raise LookupError(f"expected code of {name}")


def watch(function: types.FunctionType, number: int, called: set[int]) -> None:
    """From now on, in this process, each call of the function adds its number to the set."""
    path = ROOT / (function.__module__.replace(".", "/") + ".py")
    found = definition(path, function.__qualname__)
    assert found is not None, function.__qualname__
    watched = copy.deepcopy(found)
    watched.body.insert(1 if ast.get_docstring(found) is not None else 0, ast.parse(f"{_CALLED}.add({number})").body[0])
    function.__globals__[_CALLED] = called
    function.__code__ = compiled(path, function.__qualname__, watched)
