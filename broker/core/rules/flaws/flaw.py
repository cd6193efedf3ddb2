"""The type of a flaw: the rules it replaces, the properties it breaks, its visibility and origin."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import StrEnum

from broker.core.rules import Rules
from broker.core.rules.flaws.properties import PROPERTIES


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
