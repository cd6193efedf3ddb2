"""Specifies a model: the initial ISR, the number of records, and how often each fault may strike.

Everything that heals (metadata, heartbeats, fetches, restarts, the fencing of dead brokers) may happen at any time and
is never limited; only faults and the client's records are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from broker.core.configuration.settings import Settings
from broker.core.messages import AlterPartitionReassignmentsRequest, AnyRequest, Listener, Reassignment
from broker.core.rules import Rules
from common.names import unknown

TOPIC = "log"
CONTROLLER = 0
BROKERS = (1, 2, 3)
MIN_ISR = 2


class ModelBudget(NamedTuple):
    """How often each limited event may still happen."""

    records: int = 1
    """Records that the client sends, each at most once, with acks=all."""

    fences: int = 0
    """Sessions of running brokers that expire."""

    shrinks: int = 0
    """Followers behind their leader that are found to lag."""

    kills: int = 0
    """Processes that are killed; their machines lose nothing."""

    power_losses: int = 0
    """Machines that lose power: what was not synced is gone."""

    lost_answers: int = 0
    """Connections that break after the request was applied: its sender never gets the answer."""

    late_requests: int = 0
    """Requests that arrive after their sender has given up waiting."""

    orders: int = 0
    """Requests of the administrator, the model's `orders`, one after the other."""


ONE_RECORD = ModelBudget()
"""No faults."""


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """One partition on three brokers, min ISR 2, one controller."""

    name: str = "custom"
    budget: ModelBudget = ONE_RECORD
    initial_isr: int = 2
    """3: all in sync. 2: broker 3 runs, but is fenced and not in sync."""

    keeps_prefix: bool = False
    """Whether a power loss may keep some whole records of the log; else all that is not synced is lost."""

    orders: tuple[AnyRequest, ...] = ()
    generation: str = "K5"
    flaws: tuple[str, ...] = ()
    without: Callable[[Rules], Rules] | None = None
    """A change of the rules beyond the named flaws; for tests."""

    properties: frozenset[str] | None = None
    """The properties to check; None for all."""

    def settings(self, node_id: int) -> Settings:
        """Settings of a node."""
        return Settings(
            node_id=node_id,
            roles=("controller",) if node_id == CONTROLLER else ("broker",),
            voters={CONTROLLER: ("controller", 1)},
            listeners=(Listener("CLIENT", f"b{node_id}", 1), Listener("BROKER", f"b{node_id}", 2)),
            log_dirs=("/",),
            min_insync_replicas=MIN_ISR,
            auto_create_topics_enable=False,
            fetch_session_slots=0,  # sessions count their requests, and no two states would be equal
            generation=self.generation,
            flaws=self.flaws,
        )

    def title(self) -> str:
        """The budget in words, for tables."""
        parts = [f"ISR {self.initial_isr}"]
        defaults = ModelBudget(records=0)
        for field in ModelBudget._fields:
            amount = getattr(self.budget, field)
            if amount != getattr(defaults, field):
                parts.append(f"{field.replace('_', ' ')} {amount}")
        if self.keeps_prefix:
            parts.append("prefixes kept")
        return ", ".join(parts)


def reassign(*targets: tuple[int, ...]) -> tuple[AnyRequest, ...]:
    """Requests that move the partition to these replicas, one after the other."""
    return tuple(AlterPartitionReassignmentsRequest((Reassignment(TOPIC, 0, target),)) for target in targets)


def parse_budget(text: str) -> ModelBudget:
    """A budget from `records=1,fences=1`; raises ValueError with one line that says what was expected."""
    amounts: dict[str, int] = {}
    for part in text.split(","):
        name, equals, amount = part.strip().partition("=")
        if not equals or not amount.isdigit():
            raise ValueError(f"expected NAME=NUMBER, found {part!r}")
        if name not in ModelBudget._fields:
            raise ValueError(unknown(name, ModelBudget._fields, "the name of a budget"))
        amounts[name] = int(amount)
    return ModelBudget(**amounts)
