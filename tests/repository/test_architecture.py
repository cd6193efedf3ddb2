"""The rule of dependence between the packages, as `pyproject.toml` states it for import-linter."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "harrow",
    "broker",
    "simulation",
    "harness",
    "nemesis",
    "workloads",
    "checkers",
    "reports",
    "incidents",
    "history",
    "common",
)


def test_no_two_modules_of_tests_have_one_name() -> None:
    """Pytest imports them by their names alone: a run of all tests would stop at the second one."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, times in names.items() if times > 1] == []


def test_imports_point_one_way() -> None:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()", "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_every_package_is_under_the_rule() -> None:
    configured = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    packages = {path.parent.name for path in ROOT.glob("*/py.typed")}
    assert packages == set(PACKAGES) == set(configured["root_packages"])
    assert len(configured["contracts"]) >= 4


def test_in_the_harness_only_systems_and_simulation_know_the_broker() -> None:
    importers = [
        path.relative_to(ROOT)
        for path in (ROOT / "harness").rglob("*.py")
        if path.relative_to(ROOT / "harness").parts[0] not in ("systems", "simulation")
        and any(module.split(".")[0] == "broker" for module in _imported(path))
    ]
    assert not importers


def test_the_core_of_the_broker_knows_no_clock_no_chance_and_no_machine() -> None:
    forbidden = {"time", "random", "socket", "os", "threading", "asyncio", "pathlib", "io", "subprocess", "secrets"}
    guilty = {
        (str(path.relative_to(ROOT)), module)
        for package in ("core", "zookeeper")
        for path in (ROOT / "broker" / package).rglob("*.py")
        for module in _imported(path)
        if module.split(".")[0] in forbidden
    }
    assert not guilty


def test_no_module_imports_itself_by_way_of_others() -> None:
    paths = {_module(path): path for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    graph = {
        name: {one if one in paths else one.rpartition(".")[0] for one in _imported(path)} & paths.keys()
        for name, path in paths.items()
    }
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _imported(path: Path) -> set[str]:
    """Modules, and names of modules with the module before them."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names
