"""Looks up the rules and properties of the replication protocol by their ids, as `protocol.toml` states them.

Code, failures and reports name them (BL-8, P-12); docs/protocol.md lists them with the code that carries them out.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Any, Final

FAMILIES: Final = (
    *("CT", "MD", "BL", "RG", "HB", "PR", "FE", "LG", "HW", "ISR", "AP"),
    *("RT", "EC", "OE", "TR", "EL", "ELR", "UR", "RA", "LO", "ST", "QU"),
)
"""Families of rules. Ids of properties begin with P (safety) or V (liveness)."""

RULE_ID: Final = re.compile(
    rf"\b(?:(?:{'|'.join(sorted(FAMILIES, key=len, reverse=True))})-(?:[ES]\d*|\d+)(?![\w-])|[PV]-[RGTDAE]?\d+\b)"
)
"""What may be an id of a rule or property."""
FAILURE_ID: Final = re.compile(rf"{RULE_ID.pattern}|\b[BZ]-\d+\b")
"""What may be an id that a failure names: of a rule, a property or a flaw."""


@dataclass(frozen=True, slots=True)
class ProtocolRule:
    """A rule or property. `absent` says why no code names it; "" if code does."""

    id: str
    statement: str
    """One sentence."""
    source: str
    absent: str

    @property
    def is_property(self) -> bool:
        """Whether it is what must hold, and not how it is made to hold."""
        return self.id.startswith(("P-", "V-"))


@dataclass(frozen=True, slots=True)
class ProtocolVersion:
    """A version of the protocol."""

    name: str
    like: str
    """Which version of Kafka has these rules, as what can follow its name: "as in Kafka 3.5"."""
    rules: str
    """What it has that the one before has not."""


@dataclass(frozen=True, slots=True)
class ProtocolSection:
    """A numbered section of the protocol."""

    number: str
    title: str
    text: str
    rules: tuple[ProtocolRule, ...]
    versions: tuple[ProtocolVersion, ...]


@functools.cache
def protocol_sections() -> tuple[ProtocolSection, ...]:
    """Return the sections in their order."""
    return tuple(_section(table) for table in _data()["section"])


@functools.cache
def protocol_rules() -> Mapping[str, ProtocolRule]:
    """Return all rules and properties by id."""
    return MappingProxyType({rule.id: rule for section in protocol_sections() for rule in section.rules})


@functools.cache
def failure_sentences() -> Mapping[str, str]:
    """Return what failures may name, by id: a sentence of each rule, property, and flaw of older protocol versions."""
    flaws = {table["id"]: table["sentence"] for table in _data()["flaw"]}
    return MappingProxyType({rule.id: rule.statement for rule in protocol_rules().values()} | flaws)


def version_in_words(name: str) -> str:
    """Return a version's name with the version of Kafka that has its rules, "K3 (as in Kafka 3.5)"; else the name."""
    known = {version.name: version.like for section in protocol_sections() for version in section.versions}
    known |= {table["name"]: table["like"] for table in _data()["design"]}
    return f"{name} ({known[name]})" if name in known else name


def broken_clause(property_id: str, what: str) -> str:
    """Return the part of a property that a failure breaks, by what it says; "" if the property has no parts."""
    parts = (table for table in _data()["clause"] if table["of"] == property_id)
    return next((str(table["sentence"]) for table in parts if table["says"] in what), "")


def clauses() -> tuple[tuple[str, str], ...]:
    """Return of each part of a property the property's id, and what failures say that break it."""
    return tuple((table["of"], table["says"]) for table in _data()["clause"])


@functools.cache
def _data() -> Mapping[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath("protocol.toml").read_text(encoding="utf-8"))


def _section(table: Mapping[str, Any]) -> ProtocolSection:
    rules = tuple(
        ProtocolRule(row["id"], row["rule"], row["source"], row.get("absent", ""))
        for row in [*table.get("rules", ()), *table.get("properties", ())]
    )
    versions = tuple(ProtocolVersion(**row) for row in table.get("versions", ()))
    return ProtocolSection(table["number"], table["title"], table.get("text", "").strip(), rules, versions)
