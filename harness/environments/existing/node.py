"""A broker of an existing cluster: what is known of it over the protocol, and what its hooks can do to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, cast

from harness.environments.base import NodePlan
from harness.environments.common.layout import PlannedNode
from harness.environments.existing.hooks import HookRunner
from harness.systems.hooks import CUT_OFF, KILL, PAUSE, STOP
from nemesis.capabilities.cluster import LOG_LINES, NodeError, NodeWallClock
from nemesis.capabilities.disks import BreakableDisk, PageCacheLoss, Survival


class _OutOfReach:
    """A disk that no fault has touched, and none can."""

    def __init__(self, error: NodeError) -> None:
        self._error = error

    def end_trouble(self) -> None:
        """Nothing to end."""

    def __getattr__(self, name: str) -> NoReturn:
        raise self._error


class HookedNode(PlannedNode):
    """Implements `nemesis.capabilities.cluster.ClusterNode` as far as hooks can.

    Nobody here sees the process: a node counts as dead from the moment a hook has verifiably ended it until the hook
    that starts it was run. One that ends by itself only stops serving.
    """

    def __init__(self, plan: NodePlan, hooks: HookRunner, serves: Callable[[], bool]) -> None:
        """`serves` asks the node and the others over the protocol: it answers, and they know it."""
        self._plan = plan
        self._hooks = hooks
        self._serves = serves
        self._dead = self._paused = False

    @property
    def plan(self) -> NodePlan:
        """Its id, role and paths."""
        return self._plan

    @property
    def pid(self) -> int | None:
        """Unknown."""
        return None

    def is_alive(self) -> bool:
        """Whether no hook has ended it."""
        return not self._dead

    def exit_status(self) -> int | None:
        """Unknown."""
        return None

    def is_ready(self) -> bool:
        """Whether it answers, and the other brokers know it."""
        return not self._dead and self._serves()

    def await_ready(self, timeout_s: float) -> None:
        """Nothing to wait for: the cluster was examined before."""

    def start(self) -> None:
        """Run the hook that starts it; returns at once."""
        for name in (KILL, STOP):
            if name in self._hooks.hurt_by:
                self._hooks.heal(name)
        self._dead = False

    def stop(self, timeout_s: float) -> int:  # noqa: ARG002 - the hook has its own
        """Run the hook that shuts it down, and wait until it is gone."""
        self._end(STOP)
        return 0

    def kill(self) -> None:
        """Run the hook that kills it, and wait until it is gone. Does nothing to a dead node."""
        if not self._dead:
            self._end(KILL)

    def _end(self, name: str) -> None:
        self._dead = True  # even if the hook fails: it may have ended the node, and then has to be healed
        self._hooks.hurt(name, lambda: not self._serves())

    def pause(self) -> None:
        """Run the hook that pauses it, and wait until it does not answer."""
        self._hooks.hurt(PAUSE, lambda: not self._serves())
        self._paused = True

    def resume(self) -> None:
        """Run the hook that resumes it."""
        self._hooks.heal(PAUSE)
        self._paused = False

    def is_paused(self) -> bool:
        """Whether a hook has paused it, and did not resume it yet."""
        return self._paused or PAUSE in self._hooks.hurt_by

    def cut_off(self) -> None:
        """Run the hook that cuts it off, and wait until it does not answer, or the others do not know it."""
        self._hooks.hurt(CUT_OFF, lambda: not self._serves())

    def rejoin(self) -> None:
        """Run the hook that connects it again."""
        if self.is_cut_off():
            self._hooks.heal(CUT_OFF)

    def is_cut_off(self) -> bool:
        """Whether a hook has cut it off, and none has connected it again."""
        return CUT_OFF in self._hooks.hurt_by

    def heal(self) -> list[str]:
        """Run every hook that heals what is not healed yet; returns what went wrong."""
        failures = []
        for name in sorted(self._hooks.hurt_by):
            try:
                self._hooks.heal(name)
            except NodeError as error:
                failures.append(str(error))
        self._dead = self._paused = False
        return failures

    def throttle(self, percent: int) -> None:
        """No hook can."""
        raise self._no_hook(f"let it run for {percent} % of the time")

    def unthrottle(self) -> None:
        """Nothing to undo."""

    def running_percent(self, seconds: float) -> float:
        """No hook can."""
        raise self._no_hook(f"watch it for {seconds:g} s")

    def limit_memory(self) -> int:
        """No hook can."""
        raise self._no_hook("limit its memory")

    def unlimit_memory(self) -> None:
        """Nothing to undo."""

    def memory_limit(self) -> int | None:
        """Unknown."""
        return None

    def log_tail(self, lines: int = LOG_LINES) -> Sequence[str]:  # noqa: ARG002
        """Its logs are not here."""
        return ()

    @property
    def disk(self) -> BreakableDisk:
        """No hook reaches it: it has no trouble to end, and everything else fails."""
        return cast("BreakableDisk", _OutOfReach(self._no_hook("reach its disk")))

    @property
    def clock(self) -> NodeWallClock:
        """No hook reaches it."""
        raise self._no_hook("set its clock")

    def lose_page_cache(self, survival: Survival = "nothing", seed: int = 0) -> PageCacheLoss:  # noqa: ARG002
        """No hook can."""
        raise self._no_hook(f"lose its page cache with {survival} surviving")

    def _no_hook(self, what: str) -> NodeError:
        return NodeError(f"expected a hook to {what} (node {self.node_id}), found that there is none of that kind")
