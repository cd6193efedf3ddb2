"""Prints docs/protocol.md: each rule and property of the protocol, its source, and where the code names it.

Run from the root of the repository: `python -m docs.protocol > docs/protocol.md`. Sections, rules and properties are
data in history/protocol.toml. A test (tests/repository/test_protocol_page.py) compares the page with them and with
the code.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from history.protocol import FAMILIES, RULE_ID, ProtocolRule, protocol_sections

ROOT = Path(__file__).parent.parent
PRODUCT = (
    "broker",
    "simulation",
    "harness",
    "checkers",
    "nemesis",
    "workloads",
    "reports",
    "incidents",
    "history",
    "common",
)
_RANGE = re.compile(r"\b([A-Z]{1,3})-([RGTDAE]?)(\d+) (?:…|to) (?:\1-)?(?:\2)?(\d+)\b")
_SECTION = re.compile(r"§(\d+(?:\.\d+)*)")
_REPLACEMENTS = ("broker/core/rules/flaws", "broker/core/rules/generations.py")
"""Modules that replace rules, and do not decide them."""

_PREAMBLE = """# The protocol

The rules by which the broker replicates, and the properties that must hold, in the order of the protocol. A section
number in a docstring (§5.1) is a section here; a rule id (BL-8) or property id (P-12) in code, reports and failures is
a row here. *Where* is the code that names the id. Decisions are methods in
[broker/core/rules](../broker/core/rules), which a protocol version or a [known flaw](reference/flaws.md) can replace;
the rest of `broker/core` carries them out.

Sources: *KIP-n* and *KAFKA-n* are Kafka's improvement proposals and issues; *description* is Jack Vanlightly's
description of the replication protocol and *TLA+* his formal specification (github.com/Vanlightly/kafka-tlaplus);
*Kafka's code* is behaviour that only the code has; *model checking* is a result of checking that specification;
*derived* follows from other rules.

Made by `python -m docs.protocol > docs/protocol.md` from `history/protocol.toml` and the code.
"""


def named_in(text: str) -> set[str]:
    """The ids that a line of code or text names; "HW-1 … HW-3" and "ISR-E2, E3" name each of theirs."""
    found = set(RULE_ID.findall(text))
    for family, letter, first, last in _RANGE.findall(text):
        if family in FAMILIES or family in "PV":
            found |= {f"{family}-{letter}{number}" for number in range(int(first), int(last) + 1)}
    for listed in re.findall(r"\bISR-E\d((?:,? (?:and )?E\d)+)", text):
        found |= {f"ISR-{condition}" for condition in re.findall(r"E\d", listed)}
    return found


def sources(root: Path = ROOT) -> Iterator[Path]:
    """Every module of the product, in order."""
    for package in PRODUCT:
        yield from sorted((root / package).rglob("*.py"))


def section_references(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """(place, section number) of every § in the product's modules."""
    for path in sources(root):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for section in _SECTION.findall(line):
                yield f"{path.relative_to(root)}:{number}", section


def places(root: Path = ROOT) -> dict[str, dict[str, list[str]]]:
    """Id -> module -> the definitions in it that name the id; none if only the module's docstring does."""
    found: dict[str, dict[str, list[str]]] = {}
    for path in sources(root):
        text = path.read_text(encoding="utf-8")
        module = path.relative_to(root).as_posix()
        if module in ("broker/core/rules/flaws/properties.py", "simulation/invariants/properties.py"):
            continue
        definitions = _definitions(ast.parse(text))
        for number, line in enumerate(text.splitlines(), 1):
            for rule in named_in(line):
                names = found.setdefault(rule, {}).setdefault(module, [])
                enclosing = [name for first, last, name in definitions if first <= number <= last]
                if enclosing and enclosing[-1] not in names:
                    names.append(enclosing[-1])
    return found


def _definitions(tree: ast.Module) -> list[tuple[int, int, str]]:
    """(first line, last line, name) of classes and functions at the top, and of methods after their class."""
    found = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.append((_first_line(node), node.end_lineno or 0, node.name))
        if isinstance(node, ast.ClassDef):
            found += [
                (_first_line(child), child.end_lineno or 0, f"{node.name}.{child.name}")
                for child in node.body
                if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            ]
    return found


def _first_line(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _where(row: ProtocolRule, found: Mapping[str, Mapping[str, list[str]]]) -> str:
    if row.absent:
        return row.absent
    modules = found.get(row.id, {})
    if row.is_property:
        chosen = {module: names for module, names in modules.items() if module.startswith("simulation/")}
    else:
        core = {module: names for module, names in modules.items() if module.startswith("broker/core/")}
        decided = {module: names for module, names in core.items() if not module.startswith(_REPLACEMENTS)}
        chosen = decided or core
    parts = []
    for module, names in (chosen or modules).items():
        link = f"[{module.removesuffix('.py').replace('/', '.')}](../{module})"
        parts.append(link + (f" `{'`, `'.join(names)}`" if names else ""))
    return "; ".join(parts)


def page(root: Path = ROOT) -> str:
    """The whole page."""
    found = places(root)
    lines = [_PREAMBLE]
    for section in protocol_sections():
        depth = "#" * (2 + section.number.count("."))
        lines += [f'<a id="{section.number}"></a>', "", f"{depth} §{section.number} {section.title}", ""]
        if section.text:
            lines += [section.text, ""]
        if section.versions:
            lines += ["| version | | rules |", "|---|---|---|"]
            lines += [f"| {version.name} | {version.like} | {version.rules} |" for version in section.versions]
            lines.append("")
        if section.rules:
            lines += ["| id | | source | where |", "|---|---|---|---|"]
            for row in section.rules:
                cells = (f'<a id="{row.id}"></a>{row.id}', row.statement, row.source, _where(row, found))
                lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
