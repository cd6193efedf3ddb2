"""Print docs/rules.md: every rule of the protocol that the broker's core names, and where it is decided.

Run it from the root of the repository: `python docs/rules.py > docs/rules.md`. A test holds the page to the code.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

_RULE = re.compile(r"\b(AP|BL|CT|EC|EL|ELR|FE|HB|HW|ISR|LG|LO|MD|OE|PR|QU|RA|RG|RT|ST|TR|UR)-(\d+|[EIS]\d*)\b")
_SUBJECTS = {
    "CT": "controller",
    "MD": "metadata",
    "BL": "broker life cycle",
    "RG": "registration",
    "HB": "heartbeats",
    "PR": "produce",
    "FE": "fetch",
    "LG": "lag",
    "HW": "high watermark",
    "ISR": "ISR, leader's side",
    "AP": "AlterPartition, controller's side",
    "RT": "role transitions",
    "EC": "leader-epoch cache",
    "OE": "OffsetForLeaderEpoch",
    "TR": "truncation",
    "EL": "elections",
    "ELR": "eligible leader replicas",
    "UR": "unclean recovery",
    "RA": "reassignment",
    "LO": "offsets, deletion, retention",
    "ST": "storage",
    "QU": "controller quorum",
}
_PREAMBLE = """# Rules of the protocol, and where they are

The broker implements Kafka's replication protocol of the KRaft era (KIP-101, -279, -320, -497, -595, -630, -841, -903,
-966, -996). Each rule has an id; this page says which code names it, and in what words. Decisions are methods in
`broker/core/rules/`, so that a generation or a flaw can replace them; mechanics are in the other packages of
`broker/core/`. Made by `python docs/rules.py`.
"""


def named_rules(root: Path) -> Iterator[tuple[str, str, str]]:
    """(rule, place, first line of the docstring) of every docstring that names a rule."""
    for path in sorted(root.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        module = path.relative_to(root.parent.parent).with_suffix("").as_posix()
        for node, place in _definitions(tree, module):
            text = ast.get_docstring(node)
            if text is None:
                continue
            summary = text.split("\n\n")[0].replace("\n", " ")
            for rule in sorted(set(_rules_in(text))):
                yield rule, place, summary


def _definitions(node: ast.Module | ast.ClassDef, place: str) -> Iterator[tuple[ast.ClassDef | ast.FunctionDef, str]]:
    for child in node.body:
        if isinstance(child, ast.ClassDef):
            yield child, f"{place}:{child.name}"
            yield from _definitions(child, f"{place}:{child.name}")
        elif isinstance(child, ast.FunctionDef):
            yield child, f"{place}:{child.name}"


def _rules_in(text: str) -> Iterator[str]:
    """Ids in a text; "HW-1 … HW-3" and "ISR-E2, E3" name those between and after too."""
    for family, first, last in re.findall(r"\b([A-Z]{2,3})-(\d+) … (?:[A-Z]{2,3}-)?(\d+)\b", text):
        if family in _SUBJECTS:
            yield from (f"{family}-{number}" for number in range(int(first), int(last) + 1))
    yield from (f"{family}-{number}" for family, number in _RULE.findall(text))


def _order(rule: str) -> tuple[int, int, str]:
    family, _, number = rule.rpartition("-")
    return list(_SUBJECTS).index(family), int(number) if number.isdigit() else 1_000, number


def page(root: Path) -> str:
    """The whole page."""
    places: dict[str, list[tuple[str, str]]] = {}
    for rule, place, summary in named_rules(root):
        if "flaws" not in place:
            places.setdefault(rule, []).append((place, summary))
    lines = [_PREAMBLE]
    family = ""
    for rule in sorted(places, key=_order):
        if rule.rpartition("-")[0] != family:
            family = rule.rpartition("-")[0]
            lines += [f"## {family}: {_SUBJECTS[family]}", "", "| rule | where | in words |", "|---|---|---|"]
        for place, summary in places[rule]:
            lines.append(f"| {rule} | `{place}` | {summary.replace('|', chr(92) + '|')} |")
        if _next_family(rule, places) != family:
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _next_family(rule: str, places: dict[str, list[tuple[str, str]]]) -> str:
    ordered = sorted(places, key=_order)
    following = ordered.index(rule) + 1
    return ordered[following].rpartition("-")[0] if following < len(ordered) else ""


if __name__ == "__main__":
    sys.stdout.write(page(Path(__file__).parent.parent / "broker" / "core"))
