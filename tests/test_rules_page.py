"""The page of the protocol's rules says what the code says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parent.parent


def generator() -> ModuleType:
    """`docs/rules.py`, which is no part of a package."""
    specification = importlib.util.spec_from_file_location("rules_page", ROOT / "docs" / "rules.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_page_of_rules_is_that_of_the_code() -> None:
    page = generator().page(ROOT / "broker" / "core")
    written = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    assert written.splitlines() == page.splitlines(), "run `python docs/rules.py > docs/rules.md`"


def test_a_docstring_that_names_a_rule_is_on_the_page(tmp_path: Path) -> None:
    core = tmp_path / "broker" / "core"
    core.mkdir(parents=True)
    (core / "module.py").write_text('def decide() -> None:\n    """HW-3: wait for min ISR."""\n')
    assert "| HW-3 | `broker/core/module:decide` | HW-3: wait for min ISR. |" in generator().page(core)
