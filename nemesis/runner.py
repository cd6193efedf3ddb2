"""The conductor: fires a schedule's faults in time, sees each through, and leaves nothing broken behind.

One thread, one loop; nothing in it waits for one fault while another is due. A fault is journalled before it is
injected; if it does not take hold it is undone at once and its row says so. An error of whatever carries a fault out is
that fault's own: it did not take hold, or did not heal, and the others go on.

    waiting ──fire──▶ holding ──its time is over──▶ undone ──probes say healed, or the deadline──▶ recorded

Faults follow one another unless the schedule says that one fires beside others; a fault that loses unsynced
data waits until the budget of lossy windows allows it. What is beside a fault that fired late is late by
the same time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from nemesis.capabilities.cluster import Node, NodeError, is_controller
from nemesis.clock import POLL_S
from nemesis.faults import KINDS
from nemesis.faults.base import Healing, Injection, NotInEffect, Restless, Site
from nemesis.loss_budget import Budgets
from nemesis.schedule import Entry, Schedule
from nemesis.targets import OF_CONTROLLERS, Choice, NoTarget, resolve
from nemesis.triggers import holds

Row = Mapping[str, object]
"""A row of the table `faults`, without `run_id`, or the details of an entry of the journal."""

ABORTED_S = 5.0
"""How long an aborted run waits to see its faults healed; they are undone in any case."""

_MS = 1_000_000
_S = 1_000_000_000


@dataclass
class _Fired:
    """A fault between its firing and its row."""

    number: int
    entry: Entry
    choice: Choice
    injection: Injection
    started_ns: int
    took_hold: bool = False
    evidence: str = ""
    undone_ns: int | None = None

    @property
    def title(self) -> str:
        return f"{self.entry.kind} {','.join(map(str, self.choice.nodes))}"


class NemesisRunner:
    """Fires one schedule at one cluster.

    `journal` is told what is about to be injected, before it is, and must not return before that is on the
    disk. `record` gets one row of `faults` when a fault has ended. `note` gets a line for people.
    """

    def __init__(
        self,
        site: Site,
        schedule: Schedule,
        journal: Callable[[str, Row], None],
        record: Callable[[Row], None],
        note: Callable[[str], None],
        lossy_budget: int = 1,
    ) -> None:
        self._site = site
        self._waiting = [entry for entry in schedule.entries if entry.when is None]
        self._watching = [entry for entry in schedule.entries if entry.when is not None]
        self._journal = journal
        self._record = record
        self._note = note
        self._budgets = Budgets(lossy_budget, site.cluster)
        self._active: list[_Fired] = []
        self._late_ns = 0  # of the last fault that was not beside another
        self._patience_s = site.bounds.heal_s
        self.fired = 0
        """How many faults were fired so far."""
        self.took_hold = 0
        """How many of them took hold."""
        self.unhealed: list[str] = []
        """Why faults could not be healed. After the first, no more are fired."""
        self.unmended: list[str] = []
        """What else could not be undone at the end, and why."""

    @property
    def active(self) -> tuple[str, ...]:
        """Faults that hold now, in words. May be read from any thread."""
        return tuple(fault.title for fault in list(self._active))

    @property
    def held_nodes(self) -> frozenset[int]:
        """Nodes that a fault holds now. May be read from any thread."""
        return frozenset(node for fault in list(self._active) for node in fault.choice.nodes)

    def run(self, start_ns: int, end_ns: int, aborted: Callable[[], bool]) -> None:
        """Fire the schedule (its times count from `start_ns`) until `end_ns` or aborted; then heal all."""
        clock = self._site.clock
        try:
            while clock.now_ns() < end_ns and not aborted() and (self._waiting or self._watching or self._active):
                self._end_due()
                self._fire_due(start_ns)
                self._fire_triggered(start_ns)
                clock.sleep(POLL_S)
        finally:
            self.heal_all(ABORTED_S if aborted() else self._site.bounds.heal_s)
            for entry in self._watching:
                self._note(f"{entry.kind} of {entry.target} was not fired: {entry.when} never held")

    def heal_all(self, patience_s: float) -> None:
        """Undo every fault that holds, mend what else is broken, and see within a bound that all healed."""
        for fault in list(self._active):
            self._undo(fault)
        for trouble in mend(self._site):
            self._note(trouble)
            self.unmended.append(trouble)
        self._patience_s = patience_s
        while self._active:
            self._end_due()
            self._site.clock.sleep(POLL_S)

    # --- firing ---------------------------------------------------------------------------------------------

    def _fire_due(self, start_ns: int) -> None:
        while self._waiting and not self.unhealed:
            entry = self._waiting[0]
            due_ns = start_ns + entry.at_ms * _MS + (self._late_ns if entry.beside else 0)
            if due_ns > self._site.clock.now_ns() or not self._may_fire(entry):
                return
            if not entry.beside:
                self._late_ns = self._site.clock.now_ns() - due_ns
            self._fire(self._waiting.pop(0))

    def _fire_triggered(self, start_ns: int) -> None:
        """Fire what waits for a condition that holds now. It holds nobody else up."""
        for entry in list(self._watching):
            due = start_ns + entry.at_ms * _MS <= self._site.clock.now_ns() and not self.unhealed
            if due and entry.when is not None and holds(entry.when, self._site.cluster) and self._may_fire(entry):
                self._watching.remove(entry)
                self._note(f"{entry.when}: {entry.kind} of {entry.target} is fired")
                self._fire(entry)

    def _may_fire(self, entry: Entry) -> bool:
        if self._active and not entry.beside:
            return False
        self._budgets.refresh(self._site.cluster)
        kind = KINDS[entry.kind]
        if kind.forgets and not self._budgets.brokers.allows_forgetting():
            return False
        return not kind.lossy or self._budgets.allow(entry.target.role)

    def _fire(self, entry: Entry) -> None:
        kind = KINDS[entry.kind]
        try:
            choice = resolve(entry.target, self._site.cluster, self.held_nodes | self._not_to_be_hit(entry))
        except NoTarget as error:
            self._note(f"{entry.kind} of {entry.target} was not fired: {error}")
            return
        self.fired += 1
        told = {"fault": self.fired, "name": kind.name, "targets": list(choice.nodes)}
        self._journal("fault-begins", {**told, "parameters": dict(entry.parameters)})
        if kind.lossy:
            self._budgets.open(choice.nodes)
        if kind.forgets:
            self._budgets.brokers.forget()
        injection = kind.aim(self._site, choice.nodes, entry.parameters)
        self._inject(_Fired(self.fired, entry, choice, injection, self._site.clock.now_ns()))

    def _not_to_be_hit(self, entry: Entry) -> frozenset[int]:
        """A voter that forgets what it has synced breaks the quorum's promise, not the brokers'."""
        if "plain-broker" not in KINDS[entry.kind].needs or entry.target.role in OF_CONTROLLERS:
            return frozenset()
        return frozenset(node_id for node_id, node in self._site.cluster.nodes.items() if is_controller(node))

    def _inject(self, fault: _Fired) -> None:
        self._active.append(fault)
        try:
            fault.evidence = fault.injection.inject()
        except Exception as error:
            fault.evidence = f"did not take hold: {_reason(error)}"
            self._undo(fault)
        else:
            fault.took_hold = True
            self.took_hold += 1
        self._note(f"{fault.entry.kind} {fault.choice.role}: {fault.evidence}")

    # --- healing --------------------------------------------------------------------------------------------

    def _end_due(self) -> None:
        now_ns = self._site.clock.now_ns()
        for fault in list(self._active):
            if fault.undone_ns is None:
                if fault.started_ns + fault.entry.duration_ms * _MS <= now_ns:
                    self._undo(fault)
                else:
                    self._keep(fault)
                continue
            try:
                healing = fault.injection.look()
            except Exception as error:
                self._end(fault, Healing(False, _reason(error)))
                continue
            if healing.healed or now_ns >= fault.undone_ns + int(self._patience_s * _S):
                self._end(fault, healing)

    def _keep(self, fault: _Fired) -> None:
        if not isinstance(fault.injection, Restless):
            return
        try:
            fault.injection.keep()
        except Exception as error:
            fault.evidence += f"; given up: {_reason(error)}"
            self._undo(fault)

    def _undo(self, fault: _Fired) -> None:
        if fault.undone_ns is not None:
            return
        fault.undone_ns = self._site.clock.now_ns()
        try:
            fault.injection.undo()
        except Exception as error:
            self._end(fault, Healing(False, _reason(error)))

    def _end(self, fault: _Fired, healing: Healing) -> None:
        self._active.remove(fault)
        if KINDS[fault.entry.kind].forgets:
            self._budgets.brokers.remembered()
        now_ns = self._site.clock.now_ns()
        seconds = (now_ns - (fault.undone_ns or now_ns)) / _S
        if healing.healed:
            ending = f"{healing.told} after {seconds:.1f} s"
            self._budgets.healed(fault.choice.nodes)
        else:
            ending = f"did not heal in {seconds:.1f} s: {healing.told}"
            self.unhealed.append(f"fault {fault.number} ({fault.title}) {ending}")
        self._note(f"{fault.title}: {ending}")
        self._journal("fault-ended", {"fault": fault.number, "healed": healing.healed})
        self._record(_row(fault, healing.healed, now_ns, ending))


def _row(fault: _Fired, healed: bool, ended_ns: int, ending: str) -> Row:
    parameters = {**fault.entry.parameters, "role": fault.choice.role, "duration_ms": fault.entry.duration_ms}
    return {
        "fault": fault.number,
        "kind": fault.entry.kind,
        "targets": list(fault.choice.nodes),
        "parameters": json.dumps(parameters),
        "started_ns": fault.started_ns,
        "ended_ns": ended_ns,
        "schedule_entry": fault.entry.entry,
        "took_hold": fault.took_hold,
        "healed": healed,
        "evidence": f"{fault.evidence}; {ending}",
    }


def mend(site: Site) -> list[str]:
    """Undo what any fault may have left: cut links, paused, throttled and cramped nodes; returns what failed.

    Dead nodes are not started here: those that a fault killed it has started itself, and one that died of itself is
    something that somebody should hear of. Undoing what was never done does nothing, and what fails keeps nothing else
    from being undone.
    """
    steps: list[Callable[[], object]] = [site.links.clear]
    for node in site.cluster.nodes.values():
        steps += [node.disk.end_trouble, node.unthrottle, node.unlimit_memory, partial(_wake, node)]
    troubles = []
    for step in steps:
        try:
            step()
        except Exception as error:
            troubles.append(_reason(error))
    return troubles


def _wake(node: Node) -> None:
    if node.is_paused():
        node.resume()


def _reason(error: Exception) -> str:
    """The message, on one line; errors that are not ours are named."""
    text = " ".join(str(error).split())
    return text if isinstance(error, NotInEffect | NodeError) else f"{type(error).__name__}: {text}"
