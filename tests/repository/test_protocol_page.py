"""docs/protocol.md has every rule and property that the code names, and says where; every § leads into it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker.core.rules.flaws.properties import PROPERTIES
from docs import protocol
from history.protocol import broken_clause, clauses, protocol_rules, protocol_sections

PAGE = protocol.ROOT / "docs" / "protocol.md"
ROWS = protocol_rules()


def test_the_page_is_that_of_the_code() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert written.splitlines() == protocol.page().splitlines(), "run `python -m docs.protocol > docs/protocol.md`"


def test_every_id_stands_once() -> None:
    ids = [row.id for section in protocol_sections() for row in section.rules]
    assert len(ids) == len(set(ids))


def test_every_id_that_the_code_names_has_a_row() -> None:
    assert {rule: list(found) for rule, found in protocol.places().items() if rule not in ROWS} == {}


def test_every_row_is_named_in_the_code_or_says_why_not() -> None:
    named = protocol.places()
    assert [rule for rule, row in ROWS.items() if not row.absent and rule not in named] == []
    assert [rule for rule, row in ROWS.items() if row.absent and rule in named] == []


@pytest.mark.parametrize(("property_id", "says"), clauses())
def test_what_tells_which_part_of_a_property_is_broken_is_said_by_its_check(property_id: str, says: str) -> None:
    checks = [path.read_text(encoding="utf-8") for path in (protocol.ROOT / "simulation" / "invariants").rglob("*.py")]
    assert any(f'"{property_id}"' in text and says in text for text in checks)
    assert broken_clause(property_id, f"log-0: it {says} so")
    assert not broken_clause("P-1", says)


def test_every_property_that_the_observer_checks_has_a_row() -> None:
    assert sorted(set(PROPERTIES) - set(ROWS)) == []


def test_every_row_has_one_sentence_and_a_source() -> None:
    for row in ROWS.values():
        assert row.statement, row.id
        assert row.source, row.id
        assert ". " not in row.statement.removesuffix("."), row.id


def test_every_section_that_the_code_refers_to_is_a_heading() -> None:
    headings = set(re.findall(r"^#+ §([\d.]+) ", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    references = list(protocol.section_references())
    assert references
    assert [(place, section) for place, section in references if section not in headings] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PR-1 and PR-2: acks", {"PR-1", "PR-2"}),
        ("HB-1 … HB-3.", {"HB-1", "HB-2", "HB-3"}),
        ("ISR-E2, E3", {"ISR-E2", "ISR-E3"}),
        ("ISR-S, every half of the lag time", {"ISR-S"}),
        ("P-R3, V-5 and P-12", {"P-R3", "V-5", "P-12"}),
        ("KIP-98, KAFKA-12, B-52, UTF-8", set()),
    ],
)
def test_ids_are_found_in_a_line(text: str, expected: set[str]) -> None:
    assert protocol.named_in(text) == expected


def test_a_place_is_the_innermost_definition(tmp_path: Path) -> None:
    core = tmp_path / "broker" / "core"
    core.mkdir(parents=True)
    (core / "module.py").write_text(
        '"""CT-1."""\n\n\nclass Rules:\n    def decide(self) -> None:\n        """HW-3: wait."""\n'
    )
    assert protocol.places(tmp_path) == {
        "CT-1": {"broker/core/module.py": []},
        "HW-3": {"broker/core/module.py": ["Rules.decide"]},
    }
