"""Every path and module that the documentation names in backquotes exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FOLDERS = (
    *("benchmarks", "broker", "checkers", "docs", "harness", "history", "common", "nemesis"),
    *("incidents", "reports", "simulation", "tests", "tools", "workloads"),
)
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*/?")
_MODULE = re.compile(rf"(?:{'|'.join(FOLDERS)})(?:\.\w+)+")
_SETTINGS = re.compile(r"broker\.(?!core\b|shell\b)")
"""Kafka has settings whose names begin like our package: `broker.session.timeout.ms`."""


def quoted(page: Path) -> Iterator[str]:
    """Words in backquotes, and modules that are run by `python -m` anywhere."""
    text = page.read_text(encoding="utf-8")
    for quote in re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)):
        yield from quote.split()
    for module in re.findall(r"python -m\s+([\w.]+)", text):
        if module.split(".")[0] in FOLDERS:
            yield module


def is_path(word: str) -> bool:
    return _PATH.fullmatch(word) is not None and (
        ("/" in word and word.split("/")[0] in FOLDERS) or (word.endswith(".py") and word != ".py")
    )


def module_exists(name: str) -> bool:
    """Whether the longest part of a dotted name that is a module has the rest as a definition."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:length])
        if exists(place):
            return length == len(parts) or _defines(place / "__init__.py", parts[length])
        if place.with_suffix(".py").is_file():
            return length == len(parts) or _defines(place.with_suffix(".py"), parts[length])
    return False


def exists(path: Path) -> bool:
    """Whether there is such a file, or a folder that holds more than what compilers left."""
    return path.is_file() or (
        path.is_dir() and any(each.suffix != ".pyc" for each in path.rglob("*") if each.is_file())
    )


def _slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _defines(module: Path, name: str) -> bool:
    defined = rf"^(?:(?:async )?def |class |from .* import .*\b|    )?{name}\b(?: *[:=(,]|$)"
    return module.is_file() and re.search(defined, module.read_text(encoding="utf-8"), re.MULTILINE) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_path_that_a_page_names_exists(page: Path) -> None:
    named = [word.split("::")[0].split(":")[0] for word in quoted(page)]
    assert [word for word in named if is_path(word) and not exists(ROOT / word)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_module_that_a_page_names_exists(page: Path) -> None:
    named = [word for word in quoted(page) if _MODULE.fullmatch(word) and not _SETTINGS.match(word)]
    assert [word for word in named if not module_exists(word)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_anchor_that_a_page_links_to_exists(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)", page.read_text(encoding="utf-8")):
        text = (page.parent / target if target else page).read_text(encoding="utf-8")
        headings = {_slug(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
        assert anchor in headings or f'<a id="{anchor}"></a>' in text, f"{target}#{anchor}"


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("harness/run/runner.py", True),
        ("simulation/engine", True),
        ("store/latest", False),
        ("/state", False),
        ("runner.py", True),
        ("ECONNRESET", False),
    ],
)
def test_what_counts_as_a_path(word: str, found: bool) -> None:
    assert is_path(word) is found


def test_only_modules_that_exist_are_found() -> None:
    assert module_exists("simulation.engine.cluster")
    assert module_exists("checkers.check.check")
    assert not module_exists("harness.runner")
    assert not module_exists("simulation.engine.cluster.Nothing")
