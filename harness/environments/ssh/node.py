"""A node on a machine reached by SSH; forwards faults to the machine's agent."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from harness.environments.base import NodePlan, System
from harness.environments.common.layout import PlannedNode
from harness.environments.machine.kernel.process_identity import wait_until
from harness.environments.ssh.machine import Machine, NotThere
from harness.environments.storage.disks import FileState, losses
from harness.store.journal import Journal
from nemesis.capabilities.cluster import LOG_LINES, NodeError
from nemesis.capabilities.disks import BreakableDisk, PageCacheLoss, Survival, Trouble

_READY_INTERVAL_S = 0.1


class SshNode(PlannedNode):
    """Implements `nemesis.capabilities.cluster.Node`."""

    def __init__(self, machine: Machine, system: System, journal: Journal, *, own_power: bool) -> None:
        """`own_power`: the page cache is lost by a power cut, not by the agent."""
        self._machine = machine
        self._system = system
        self._journal = journal
        self._own_power = own_power
        self._lock = threading.RLock()
        self._files = SshDisk(machine, journal)
        self._clock = SshClock(machine)

    @property
    def plan(self) -> NodePlan:
        """Its id, role and paths, as the harness sees them."""
        return self._machine.plan

    @property
    def pid(self) -> int | None:
        """Process id of the latest start, on its machine."""
        pid: int | None = self._state()["pid"]
        return pid

    def is_alive(self) -> bool:
        """Whether the process exists (a paused one does)."""
        return bool(self._state()["alive"])

    def is_paused(self) -> bool:
        """Whether every thread of the process is stopped."""
        return bool(self._state()["paused"])

    def is_ready(self) -> bool:
        """Whether it reports that it serves. A paused node cannot answer."""
        state = self._state()
        return bool(state["alive"]) and not state["paused"] and self._system.is_ready(self.plan)

    def await_ready(self, timeout_s: float) -> None:
        """Wait until the node serves; `NodeError` when it dies before, or does not within the time."""
        if not wait_until(lambda: not self.is_alive() or self.is_ready(), timeout_s, _READY_INTERVAL_S):
            raise self._error(f"expected node {self.node_id} to serve within {timeout_s:g} s, found that it does not")
        if not self.is_alive():
            raise self._error(f"expected node {self.node_id} to start, found that it ended")

    def start(self) -> None:
        """Start the process; returns at once."""
        self._call("start")

    def stop(self, timeout_s: float) -> int:
        """Controlled shutdown; returns the exit status."""
        return self._machine.stop_node(self.pid or 0, timeout_s)

    def kill(self) -> None:
        """SIGKILL and reap. Does nothing to a dead node."""
        self._call("kill")

    def pause(self) -> None:
        """Stop the process, and verify that it is stopped."""
        self._journal.record("paused", node=self.node_id)
        self._call("pause")

    def resume(self) -> None:
        """Continue the process, and verify that it runs."""
        self._call("resume")
        self._journal.record("resumed", node=self.node_id)

    def throttle(self, percent: int) -> None:
        """Let the process run only for this percentage of the time, until `unthrottle`."""
        self._journal.record("throttled", node=self.node_id, percent=percent)
        self._call("throttle", percent=percent)

    def unthrottle(self) -> None:
        """Let it run without a limit. Safe when it is not throttled, or dead."""
        if self._machine.is_there:
            self._call("unthrottle")

    def running_percent(self, seconds: float) -> float:
        """The percentage of samples in which the process might run."""
        return float(self._call("running_percent", seconds=seconds))

    def limit_memory(self) -> int:
        """Limit the process's address space to its current size; returns the limit in bytes."""
        self._journal.record("memory-limited", node=self.node_id)
        return int(self._call("limit_memory"))

    def unlimit_memory(self) -> None:
        """Remove the limit. Safe when there is none, or the process is dead."""
        if self._machine.is_there:
            self._call("unlimit_memory")

    def memory_limit(self) -> int | None:
        """The limit of address space in bytes that the kernel enforces; None: no limit, or no process."""
        limit: int | None = self._call("memory_limit")
        return limit

    def exit_status(self) -> int | None:
        """Exit status of the latest process; None while it runs, and when the agent cannot be reached."""
        try:
            status: int | None = self._call("exit_status")
        except NodeError:
            return None
        return status

    def log_tail(self, lines: int = LOG_LINES) -> Sequence[str]:
        """The last lines of each of the node's logs; empty when the agent cannot be reached."""
        try:
            found: Sequence[str] = self._call("log_tail", lines=lines)
        except NodeError:
            return ()
        return found

    @property
    def disk(self) -> BreakableDisk:
        """Its disk."""
        return self._files

    @property
    def clock(self) -> SshClock:
        """Its wall clock."""
        return self._clock

    def lose_page_cache(self, survival: Survival = "nothing", seed: int = 0) -> PageCacheLoss:
        """Drop the dead node's unsynced data, except what survives. The node must have been killed before."""
        with self._lock:
            if self.is_alive():
                raise NodeError(f"expected node {self.node_id} to have been killed, found it running")
            self._journal.record("page-cache-loss", node=self.node_id)
            if self._own_power:
                return self._lose_power(survival, seed)
            mechanism, lost, files, survived = self._call("lose_page_cache", survival=survival, seed=seed)
            return PageCacheLoss(mechanism, lost, {name: tuple(sizes) for name, sizes in files.items()}, survived)

    def _lose_power(self, survival: Survival, seed: int) -> PageCacheLoss:
        before = self._states()
        contents = self._machine.call("files", "contents") if survival != "nothing" else {}
        self._machine.lose_power()
        self._clock.bend_again()
        lost_bytes, files = losses(before, self._states())
        if survival == "nothing":
            return PageCacheLoss("power-cut", lost_bytes, files)
        survived = self._machine.call("files", "restore", before=contents, survival=survival, seed=seed)
        return PageCacheLoss("power-cut", lost_bytes - survived, files, survived)

    def _states(self) -> Mapping[str, FileState]:
        states = self._machine.call("files", "states")
        return {name: FileState(size, tuple(blocks)) for name, (size, blocks) in states.items()}

    def _state(self) -> Mapping[str, Any]:
        try:
            state: Mapping[str, Any] = self._machine.ask("state")
        except NotThere:
            return {"pid": None, "alive": False, "paused": False}
        return state

    def _call(self, what: str, **details: object) -> Any:  # noqa: ANN401
        return self._machine.call("node", what, **details)


class SshDisk:
    """Implements `nemesis.capabilities.disks.Disk`."""

    def __init__(self, machine: Machine, journal: Journal) -> None:
        self._machine = machine
        self._journal = journal
        self.trouble: Trouble | None = None
        """The current trouble."""

    def files(self) -> Mapping[str, int]:
        """Sizes of all files, by name."""
        sizes: Mapping[str, int] = self._call("files")
        return sizes

    def flip_bit(self, name: str, bit: int) -> None:
        """Flip one bit of a file."""
        self._change("flip_bit", name=name, bit=bit)

    def truncate(self, name: str, size: int) -> None:
        """Truncate a file."""
        self._change("truncate", name=name, size=size)

    def remove(self, name: str) -> None:
        """Remove a file."""
        self._change("remove", name=name)

    def wipe(self) -> int:
        """Remove all files; returns their size in bytes."""
        return int(self._change("wipe"))

    def keep_copy(self) -> int:
        """Copy all files to a directory that the node does not see; returns their size in bytes."""
        return int(self._call("keep_copy"))

    def go_back_to_copy(self) -> int:
        """Replace all files by the copy; returns by how many bytes they shrank."""
        return int(self._change("go_back_to_copy"))

    def make_trouble(self, trouble: Trouble, delay_ms: int = 0) -> None:
        """Make the disk fail from now on."""
        self._journal.record("disk-trouble", node=self._machine.plan.node_id, trouble=trouble)
        self._call("make_trouble", trouble=trouble, delay_ms=delay_ms)
        self.trouble = trouble

    def end_trouble(self) -> None:
        """Make it work again."""
        if self._machine.is_there:
            self._call("end_trouble")
        self.trouble = None

    def met_trouble(self) -> int:
        """How many requests the current trouble has affected."""
        return int(self._call("met_trouble"))

    def _change(self, what: str, **details: object) -> Any:  # noqa: ANN401
        self._journal.record("disk-changed", node=self._machine.plan.node_id, what=what)
        return self._call(what, **details)

    def _call(self, what: str, **details: object) -> Any:  # noqa: ANN401
        return self._machine.call("disk", what, **details)


class SshClock:
    """Implements `nemesis.capabilities.cluster.WallClock`. The clock's error survives a power loss."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._bent: tuple[float, int] = 0.0, 0

    def bend(self, offset_ms: float, drift_ppm: int = 0) -> None:
        """Set the clock's offset, and its drift in microseconds per second, from now on."""
        self._call("bend", offset_ms=offset_ms, drift_ppm=drift_ppm)
        self._bent = offset_ms, drift_ppm

    def bend_again(self) -> None:
        """Set the same offset and drift again on a restarted machine."""
        if self._bent != (0.0, 0):
            self.bend(*self._bent)

    def straighten(self) -> None:
        """Remove offset and drift."""
        self._bent = 0.0, 0
        self._call("straighten")

    def error_ms(self) -> float:
        """The clock's error."""
        return float(self._call("error_ms"))

    def answers(self) -> int:
        """How many times the node's processes have read the time so far; 0 if that is not counted."""
        return int(self._call("answers"))

    def governs(self, pid: int) -> bool:
        """Whether the process uses this clock."""
        return bool(self._call("governs", pid=pid))

    def _call(self, what: str, **details: object) -> Any:  # noqa: ANN401
        return self._machine.call("clock", what, **details)
