"""The type of a flaw: the rules it replaces, the properties it breaks, its visibility and origin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from types import MappingProxyType

from broker.core.rules import Rules

PROPERTIES: Mapping[str, str] = MappingProxyType(
    {
        "P-1": "leader completeness",
        "P-2": "candidate completeness",
        "P-3": "log matching",
        "P-4": "committed stability",
        "P-5": "replication quorum superset",
        "P-6": "no committed truncation",
        "P-7": "unclean exclusion",
        "P-8": "one leader per epoch",
        "P-9": "high watermark monotone",
        "P-10": "high watermark bound",
        "P-11": "no read above the high watermark",
        "P-12": "acked durability",
        "P-14": "no duplicates",
        "P-15": "min ISR on ack",
        "P-16": "ISR eligibility",
        "P-17": "ELR shape",
        "P-18": "min ISR recovery quorum",
        "P-19": "epoch sanity",
        "P-21": "epoch cache equals log",
        "P-23": "reassignment safety",
        "P-R1": "quorum election safety",
        "P-R3": "quorum log matching and durability",
        "P-R4": "quorum high watermark",
        "P-R5": "vote once",
        "V-1": "brokers run",
        "V-3": "eligible replicas lead",
        "V-4": "an idle cluster is whole",
        "V-5": "every produce ends",
        "V-7": "ISR changes end",
        "V-9": "the quorum elects",
    }
)
"""Names of the properties that flaws break."""


class Visibility(StrEnum):
    """How a client-side observer can detect a flaw, by the catalogue of known flaws."""

    DIRECT = "BB"
    LATE = "BB-late"
    ADMINISTRATION = "BB-adm"
    LIVENESS = "LIVE"
    WHITE_BOX = "WB"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaw:
    """One flaw. `number` is its id in the catalogue, `properties` the ids of what it breaks, the main one first."""

    name: str
    number: str
    summary: str
    properties: tuple[str, ...]
    source: str
    visible: Visibility
    without: tuple[type, ...]
    """Classes that each replace methods of one rule object; their first base is that object's class."""

    generations: tuple[str, ...] = ("K1", "K2", "K3", "K4", "K5")
    """The protocol versions in which it changes anything: others lack the rule anyway."""

    masked_by: str = ""
    """The rule that must be missing too before it does harm; "" if it does harm alone."""

    @property
    def breaks(self) -> str:
        """Ids and names of the properties."""
        return ", ".join(f"{one} {PROPERTIES[one]}" for one in self.properties)

    def apply(self, rules: Rules) -> Rules:
        """The rules without those that this flaw removes. Flaws combine, also of the same object."""
        for care in self.without:
            for field in fields(rules):
                present = getattr(rules, field.name)
                if isinstance(present, care.__bases__[0]):
                    rules = replace(rules, **{field.name: type(care.__name__, (care, type(present)), {})()})
        return rules
