"""The conductor: fires a schedule's faults in time, sees each through, and leaves nothing broken behind.

One thread, one loop. A fault is journalled before it is injected; if it does not take hold it is undone at
once and its row says so. Faults follow one another unless the schedule says that one fires beside others; a
fault that loses unsynced data waits until the budget of lossy windows allows it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nemesis.budget import LossyBudget
from nemesis.clock import POLL_S, becomes_true
from nemesis.cluster import NodeError
from nemesis.faults import KINDS
from nemesis.faults.base import DidNotHeal, DidNotTakeHold, Injection, Kind, Site
from nemesis.schedule import Entry, Schedule
from nemesis.targets import Choice, NoTarget, resolve

Row = Mapping[str, object]
"""A row of the table `faults`, without `run_id`."""


@dataclass
class _Held:
    """A fault that holds."""

    number: int
    entry: Entry
    kind: Kind
    choice: Choice
    injection: Injection
    started_ns: int
    took_hold: bool
    evidence: str

    @property
    def title(self) -> str:
        return f"{self.kind.name} {','.join(map(str, self.choice.nodes))}"

    @property
    def until_ns(self) -> int:
        return self.started_ns + self.entry.duration_ms * 1_000_000


class Conductor:
    """Fires one schedule at one cluster.

    `journal` is called with what is about to be injected, before it is, and must not return before that is
    on the disk. `record` gets one row of `faults` when a fault has ended. `note` gets a line for people.
    """

    def __init__(
        self,
        site: Site,
        schedule: Schedule,
        journal: Callable[[Row], None],
        record: Callable[[Row], None],
        note: Callable[[str], None],
        lossy_budget: int = 1,
    ) -> None:
        self._site = site
        self._waiting = list(schedule.entries)
        self._journal = journal
        self._record = record
        self._note = note
        self._budget = LossyBudget(lossy_budget)
        self._held: list[_Held] = []
        self._fired = 0
        self.unhealed: list[str] = []
        """Why faults could not be healed. After the first, no more are fired."""

    @property
    def active(self) -> tuple[str, ...]:
        """Faults that hold now, in words. May be read from any thread."""
        return tuple(held.title for held in self._held)

    @property
    def fired(self) -> int:
        """How many faults were fired so far."""
        return self._fired

    def run(self, start_ns: int, end_ns: int, aborted: Callable[[], bool]) -> None:
        """Fire the schedule (its times count from `start_ns`) until `end_ns` or aborted; then heal all."""
        clock = self._site.clock
        try:
            while clock.now_ns() < end_ns and not aborted() and (self._waiting or self._held):
                self._heal_due(clock.now_ns())
                self._fire_due(start_ns, clock.now_ns())
                clock.sleep(POLL_S)
        finally:
            self.heal_all()

    def heal_all(self) -> None:
        """Heal every fault that holds, then mend whatever is still broken."""
        for held in list(self._held):
            self._heal(held)
        mend(self._site)

    # --- firing ---------------------------------------------------------------------------------------------

    def _fire_due(self, start_ns: int, now_ns: int) -> None:
        while self._waiting and not self.unhealed and start_ns + self._waiting[0].at_ms * 1_000_000 <= now_ns:
            if not self._may_fire(self._waiting[0]):
                return
            self._fire(self._waiting.pop(0))

    def _may_fire(self, entry: Entry) -> bool:
        if self._held and not entry.beside:
            return False
        self._budget.refresh(self._site.cluster)
        return not KINDS[entry.kind].lossy or self._budget.allows(1)

    def _fire(self, entry: Entry) -> None:
        kind = KINDS[entry.kind]
        spared = frozenset(node for held in self._held for node in held.choice.nodes)
        try:
            choice = resolve(entry.target, self._site.cluster, spared)
        except NoTarget as error:
            self._note(f"entry {entry.entry} ({entry.kind} {entry.target}) was not fired: {error}")
            return
        self._fired += 1
        injection = kind.aim(self._site, choice.nodes, entry.parameters)
        self._journal(
            {
                "event": "inject",
                "fault": self._fired,
                "kind": kind.name,
                "targets": list(choice.nodes),
                "parameters": dict(entry.parameters),
            }
        )
        if kind.lossy:
            self._budget.open(choice.nodes)
        self._note(f"fault {self._fired}: {kind.name} {choice.role} → {_nodes(choice)}")
        self._inject(_Held(self._fired, entry, kind, choice, injection, self._site.clock.now_ns(), False, ""))

    def _inject(self, held: _Held) -> None:
        self._held.append(held)
        try:
            held.evidence = held.injection.inject()
            held.took_hold = True
        except (DidNotTakeHold, NodeError) as error:
            held.evidence = f"did not take hold: {_one_line(error)}"
            self._note(f"fault {held.number} {held.evidence}")
            self._heal(held)

    # --- healing --------------------------------------------------------------------------------------------

    def _heal_due(self, now_ns: int) -> None:
        for held in list(self._held):
            if held.until_ns <= now_ns:
                self._heal(held)

    def _heal(self, held: _Held) -> None:
        healed = True
        try:
            evidence = held.injection.heal()
            self._budget.healed(held.choice.nodes)
        except (DidNotHeal, NodeError) as error:
            healed = False
            evidence = f"did not heal: {_one_line(error)}"
            self.unhealed.append(f"fault {held.number} ({held.title}) {evidence}")
        self._held.remove(held)
        self._note(f"fault {held.number}: {evidence}")
        self._journal({"event": "healed" if healed else "unhealed", "fault": held.number})
        self._record(
            {
                "fault": held.number,
                "kind": held.kind.name,
                "targets": list(held.choice.nodes),
                "parameters": json.dumps(
                    {
                        **held.entry.parameters,
                        "aimed_at": held.choice.role,
                        "duration_ms": held.entry.duration_ms,
                    }
                ),
                "started_ns": held.started_ns,
                "ended_ns": self._site.clock.now_ns(),
                "schedule_entry": held.entry.entry,
                "took_hold": held.took_hold,
                "healed": healed,
                "evidence": f"{held.evidence}; {evidence}",
            }
        )


def mend(site: Site) -> None:
    """Undo whatever any fault may have left: cut links, paused nodes, dead nodes. Waits for nothing."""
    network = site.cluster.network
    network.unblock(network.blocked())
    for node in site.cluster.nodes.values():
        if node.is_paused():
            node.resume()
        if not node.is_alive():
            node.start()


def recovered(site: Site, timeout_s: float) -> bool:
    """Wait until every node serves; whether they did in time."""
    nodes = site.cluster.nodes.values()
    return becomes_true(site.clock, lambda: all(node.is_ready() for node in nodes), timeout_s)


def _nodes(choice: Choice) -> str:
    return ", ".join(map(str, choice.nodes))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
