"""Fires the faults of a schedule, verifies that each took effect, and undoes all of them at the end.

One thread, one loop; nothing in it waits for one fault while another is due. A fault is journalled before it is
injected; if it does not take effect it is undone at once and its row says so. An exception of one fault's code affects
that fault only: it did not take effect, or did not heal, and the others go on.

    waiting ──fire──▶ active ──duration is over──▶ undone ──probes say healed, or the deadline──▶ recorded

A node that ended by itself after it was started does not come back. It is no target any more; the schedule goes on with
the other nodes. After any other fault that does not heal no more are fired.

Faults follow one another unless the schedule says that one fires beside others; a fault that loses unsynced
data waits until the budget of lossy windows allows it. A fault beside one that fired late is late by the same time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from nemesis.capabilities.cluster import ClusterNode, NodeError, NodeLost, is_controller
from nemesis.faults import KINDS
from nemesis.faults.base import POLL_S, Completing, Healing, Injection, NotInEffect, Recurring, Site
from nemesis.loss_budget import Budgets
from nemesis.schedule import Schedule, ScheduledFault
from nemesis.targets import OF_CONTROLLERS, NoTarget, ResolvedTarget, holds, resolve

Row = Mapping[str, object]
"""A row of the table `faults`, without `run_id`, or the details of an entry of the journal."""

ABORTED_S = 5.0
"""How long an aborted run waits until its faults have healed; they are undone in any case."""

_MS = 1_000_000
_S = 1_000_000_000


@dataclass
class _Fired:
    """A fault that was fired and is not recorded yet."""

    number: int
    entry: ScheduledFault
    resolved: ResolvedTarget
    injection: Injection
    started_ns: int
    held_ns: int | None = None
    evidence: str = ""
    undone_ns: int | None = None

    @property
    def title(self) -> str:
        return f"{self.entry.kind} {','.join(map(str, self.resolved.nodes))}"


class NemesisRunner:
    """Fires one schedule at one cluster.

    `journal` is called before a fault is injected, and must not return before the entry is on the disk. `record` gets
    one row of `faults` when a fault has ended. `log` gets messages for the user.
    """

    def __init__(
        self,
        site: Site,
        schedule: Schedule,
        journal: Callable[[str, Row], None],
        record: Callable[[Row], None],
        log: Callable[[str], None],
        lossy_budget: int = 1,
    ) -> None:
        self._site = site
        self._waiting = [entry for entry in schedule.entries if entry.when is None]
        self._watching = [entry for entry in schedule.entries if entry.when is not None]
        self._journal = journal
        self._record = record
        self._log = log
        self._budgets = Budgets(lossy_budget, site.cluster)
        self._active: list[_Fired] = []
        self._hit: dict[int, tuple[int, ...]] = {}  # entry -> the nodes that it hit
        self._late_ns = 0  # of the last fault that did not fire beside another
        self._heal_timeout_s = site.bounds.heal_s
        self.fired = 0
        """How many faults were fired so far."""
        self.took_hold = 0
        """How many of them took effect."""
        self.unhealed: list[str] = []
        """Why faults could not be healed, except for nodes that are lost. After the first, no more are fired."""
        self.unmended: list[str] = []
        """What else could not be undone at the end, and why."""

    @property
    def active(self) -> tuple[str, ...]:
        """Titles of the active faults. May be read from any thread."""
        return tuple(fault.title for fault in list(self._active))

    @property
    def held_nodes(self) -> frozenset[int]:
        """Targets of the active faults. May be read from any thread."""
        return frozenset(node for fault in list(self._active) for node in fault.resolved.nodes)

    def run(self, start_ns: int, end_ns: int, aborted: Callable[[], bool]) -> None:
        """Fire the schedule (its times count from `start_ns`) until `end_ns` or aborted; then heal all faults."""
        clock = self._site.clock
        try:
            while not aborted() and (self._has_more(end_ns) or self._must_go_on()):
                self._end_due()
                if clock.now_ns() < end_ns:
                    self._fire_due(start_ns)
                    self._fire_triggered(start_ns)
                clock.sleep(POLL_S)
        finally:
            self.heal_all(ABORTED_S if aborted() else self._site.bounds.heal_s)
            for entry in self._watching:
                self._log(f"{entry.kind} of {entry.target} was not fired: {entry.when} was never true")

    def _has_more(self, end_ns: int) -> bool:
        return self._site.clock.now_ns() < end_ns and bool(self._waiting or self._watching or self._active)

    def _must_go_on(self) -> bool:
        """Whether a fault is active that is not to be cut short by the end of the main phase."""
        return any(
            KINDS[fault.entry.kind].whole
            and fault.undone_ns is None
            and isinstance(fault.injection, Completing)
            and not fault.injection.is_complete()
            for fault in self._active
        )

    def heal_all(self, timeout_s: float) -> None:
        """Undo every active fault and everything else that is broken; wait up to the timeout until all have healed."""
        for fault in list(self._active):
            self._undo(fault)
        for failure in mend(self._site):
            self._log(failure)
            self.unmended.append(failure)
        self._heal_timeout_s = timeout_s
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
        """Fire entries whose condition is true now. They do not delay other entries."""
        for entry in list(self._watching):
            due = start_ns + entry.at_ms * _MS <= self._site.clock.now_ns() and not self.unhealed
            if due and entry.when is not None and holds(entry.when, self._site.cluster) and self._may_fire(entry):
                self._watching.remove(entry)
                self._log(f"{entry.when}: {entry.kind} of {entry.target} is fired")
                self._fire(entry)

    def _may_fire(self, entry: ScheduledFault) -> bool:
        if self._active and not entry.beside:
            return False
        self._budgets.refresh(self._site.cluster)
        kind = KINDS[entry.kind]
        if kind.forgets and not self._budgets.brokers.allows_forgetting():
            return False
        return not kind.lossy or self._budgets.allow(entry.target.role)

    def _fire(self, entry: ScheduledFault) -> None:
        kind = KINDS[entry.kind]
        try:
            excluded = self.held_nodes | self._excluded(entry)
            resolved = resolve(entry.target, self._site.cluster, excluded, self._hit)
        except NoTarget as error:
            self._log(f"{entry.kind} of {entry.target} was not fired: {error}")
            return
        self.fired += 1
        self._hit[entry.entry] = resolved.nodes
        event = {"fault": self.fired, "name": kind.name, "targets": list(resolved.nodes)}
        self._journal("fault-begins", {**event, "parameters": dict(entry.parameters)})
        if kind.lossy:
            self._budgets.open(resolved.nodes)
        if kind.forgets:
            self._budgets.brokers.forget()
        injection = kind.aim(self._site, resolved.nodes, entry.parameters)
        self._inject(_Fired(self.fired, entry, resolved, injection, self._site.clock.now_ns()))

    def _excluded(self, entry: ScheduledFault) -> frozenset[int]:
        """Return the controllers for faults that lose synced data: a voter that does breaks the quorum's contract."""
        if "plain-broker" not in KINDS[entry.kind].needs or entry.target.role in OF_CONTROLLERS:
            return frozenset()
        return frozenset(node_id for node_id, node in self._site.cluster.nodes.items() if is_controller(node))

    def _inject(self, fault: _Fired) -> None:
        self._active.append(fault)
        try:
            fault.evidence = fault.injection.inject()
        except Exception as error:
            fault.evidence = f"did not take effect: {_reason(error)}"
            self._undo(fault)
        else:
            fault.held_ns = self._site.clock.now_ns()
            self.took_hold += 1
        self._log(f"{fault.entry.kind} {fault.resolved.role}: {fault.evidence}")

    # --- healing --------------------------------------------------------------------------------------------

    def _end_due(self) -> None:
        now_ns = self._site.clock.now_ns()
        for fault in list(self._active):
            if fault.undone_ns is None:
                if self._is_over(fault, now_ns):
                    self._undo(fault)
                else:
                    self._tick(fault)
                continue
            try:
                healing = fault.injection.check_healed()
            except Exception as error:
                self._end(fault, Healing(False, _reason(error)), lost=isinstance(error, NodeLost))
                continue
            if healing.healed or now_ns >= fault.undone_ns + int(self._heal_timeout_s * _S):
                self._end(fault, healing)

    def _is_over(self, fault: _Fired, now_ns: int) -> bool:
        """Whether its time is over; one with steps left has as long more for each target as healing may take."""
        end_ns = fault.started_ns + fault.entry.duration_ms * _MS
        if now_ns < end_ns or not isinstance(fault.injection, Completing) or fault.injection.is_complete():
            return now_ns >= end_ns
        return now_ns >= end_ns + int(len(fault.resolved.nodes) * self._site.bounds.heal_s * _S)

    def _tick(self, fault: _Fired) -> None:
        if not isinstance(fault.injection, Recurring):
            return
        try:
            fault.injection.tick()
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

    def _end(self, fault: _Fired, healing: Healing, *, lost: bool = False) -> None:
        """Record a fault that has ended. A node that is `lost` is no target any more; the others stay targets."""
        self._active.remove(fault)
        if KINDS[fault.entry.kind].forgets:
            self._budgets.brokers.remembered()
        now_ns = self._site.clock.now_ns()
        seconds = (now_ns - (fault.undone_ns or now_ns)) / _S
        if healing.healed:
            ending = f"{healing.evidence} after {seconds:.1f} s"
            self._budgets.healed(fault.resolved.nodes)
        else:
            ending = f"did not heal in {seconds:.1f} s: {healing.evidence}"
            if not lost:
                self.unhealed.append(f"fault {fault.number} ({fault.title}) {ending}")
        self._log(f"{fault.title}: {ending}")
        self._journal("fault-ended", {"fault": fault.number, "healed": healing.healed})
        self._record(_row(fault, healing.healed, now_ns, ending))


def _row(fault: _Fired, healed: bool, ended_ns: int, ending: str) -> Row:
    parameters = {**fault.entry.parameters, "role": fault.resolved.role, "duration_ms": fault.entry.duration_ms}
    return {
        "fault": fault.number,
        "kind": fault.entry.kind,
        "targets": list(fault.resolved.nodes),
        "parameters": json.dumps(parameters),
        "started_ns": fault.started_ns,
        "held_ns": fault.held_ns,
        "ended_ns": ended_ns,
        "schedule_entry": fault.entry.entry,
        "took_hold": fault.held_ns is not None,
        "healed": healed,
        "evidence": f"{fault.evidence}; {ending}",
    }


def mend(site: Site) -> list[str]:
    """Undo what any fault may have left: cut links, paused, throttled and memory-limited nodes; returns what failed.

    Dead nodes are not started here: a fault starts those that it killed, and a node that died by itself must be
    reported. Undoing what was never done has no effect, and a failing step does not prevent the others.
    """
    steps: list[Callable[[], object]] = [site.links.clear]
    for node in site.cluster.nodes.values():
        steps += [node.disk.end_trouble, node.unthrottle, node.unlimit_memory, partial(_resume, node)]
    failures = []
    for step in steps:
        try:
            step()
        except Exception as error:
            failures.append(_reason(error))
    return failures


def _resume(node: ClusterNode) -> None:
    if node.is_paused():
        node.resume()


def _reason(error: Exception) -> str:
    """Format the error on one line; unexpected errors with their class name."""
    text = " ".join(str(error).split())
    return text if isinstance(error, NotInEffect | NodeError) else f"{type(error).__name__}: {text}"
