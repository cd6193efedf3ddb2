"""Faults of whole processes: kill, pause, restart, rolling restart, crash loop.

`kill`             SIGKILL, and a start some time later; what the process had written stays in the page cache
`power-cut`        the same to all brokers, a majority of them, or every node at once
`pause`            the process stops running with its connections open, and resumes with the state it had (SIGSTOP)
`restart`          a controlled shutdown, which hands leadership over first, and a start some time later
`rolling-restart`  every node in turn is restarted, as in an upgrade
`crash-loop`       a node is killed repeatedly, often before it has recovered from the previous kill
"""

from __future__ import annotations

from dataclasses import dataclass, field

from nemesis.draws import Draws
from nemesis.faults.base import FaultKind, Healing, Injection, NotInEffect, Parameters, Site, named, no_parameters

_NS_PER_MS = 1_000_000


def start_dead(site: Site, targets: tuple[int, ...]) -> None:
    """Start those of the targets that are dead."""
    for target in targets:
        node = site.cluster.nodes[target]
        if not node.is_alive():
            node.start()


@dataclass(frozen=True)
class Kill:
    """Nodes that are killed, and started again when the fault ends."""

    site: Site
    targets: tuple[int, ...]

    def inject(self) -> str:
        """Kill all targets as nearly at once as one thread can."""
        nodes = self.site.cluster.nodes
        self.site.require_alive(self.targets)
        processes = self.site.processes(self.targets)
        for target in self.targets:
            nodes[target].kill()
        self.site.await_effect(
            lambda: not any(nodes[target].is_alive() for target in self.targets),
            f"{named(self.targets)} did not die",
        )
        return (
            f"{processes} killed and {'reaped' if self.site.sees_processes(self.targets) else 'gone, as was verified'}"
        )

    def undo(self) -> None:
        """Start the dead targets."""
        start_dead(self.site, self.targets)

    def check_healed(self) -> Healing:
        """Check that all targets serve again."""
        return self.site.serving(self.targets)


@dataclass(frozen=True)
class Pause:
    """Nodes whose processes are stopped, and resumed when the fault ends."""

    site: Site
    targets: tuple[int, ...]

    def inject(self) -> str:
        """Stop the targets from running."""
        nodes = self.site.cluster.nodes
        self.site.require_alive(self.targets)
        for target in self.targets:
            nodes[target].pause()
        self.site.await_effect(
            lambda: all(nodes[target].is_paused() for target in self.targets),
            f"{named(self.targets)} went on running",
        )
        if self.site.sees_processes(self.targets):
            return f"the kernel reports {named(self.targets)} stopped"
        return f"{named(self.targets)} paused, as was verified"

    def undo(self) -> None:
        """Resume the targets; start one that died meanwhile."""
        for target in self.targets:
            if self.site.cluster.nodes[target].is_paused():
                self.site.cluster.nodes[target].resume()
        start_dead(self.site, self.targets)

    def check_healed(self) -> Healing:
        """Check that all targets run and serve again."""
        nodes = self.site.cluster.nodes
        paused = tuple(target for target in self.targets if nodes[target].is_paused())
        if paused:
            return Healing(False, f"{named(paused)} did not run on")
        return self.site.serving(self.targets)


@dataclass(frozen=True)
class Restart:
    """Nodes that are shut down one after the other, and started again when the fault ends."""

    site: Site
    targets: tuple[int, ...]

    def inject(self) -> str:
        """Shut the targets down in a controlled way."""
        statuses = {target: self.site.cluster.nodes[target].stop(self.site.bounds.stop_s) for target in self.targets}
        failed = {target: status for target, status in statuses.items() if status not in self.site.orderly_exits}
        if failed:
            exits = ", ".join(f"node {target} exited with status {status}" for target, status in failed.items())
            raise NotInEffect(f"the shutdown was not clean: {exits}")
        return (
            f"{named(self.targets)} shut down cleanly, exit status {', '.join(map(str, sorted({*statuses.values()})))}"
        )

    def undo(self) -> None:
        """Start the dead targets."""
        start_dead(self.site, self.targets)

    def check_healed(self) -> Healing:
        """Check that all targets serve again."""
        return self.site.serving(self.targets)


@dataclass
class RollingRestart:
    """Nodes that are restarted one after the other; each one waits until the previous one serves."""

    site: Site
    targets: tuple[int, ...]
    _restarted: list[int] = field(default_factory=list)  # the last of them may still be starting

    def inject(self) -> str:
        """Restart the first node."""
        shutdown = self._restart(self.targets[0])
        return f"{shutdown}, the first of {len(self.targets)}"

    def tick(self) -> None:
        """Restart the next node if the previous one serves."""
        left = self.targets[len(self._restarted) :]
        if left and self.site.serving(self._restarted[-1:]).healed:
            self._restart(left[0])

    def is_complete(self) -> bool:
        """Whether every node was restarted."""
        return len(self._restarted) == len(self.targets)

    def undo(self) -> None:
        """Start the dead targets. Nodes that were not restarted yet are left as they are."""
        start_dead(self.site, self.targets)

    def check_healed(self) -> Healing:
        """Check that all targets serve again."""
        serving = self.site.serving(self.targets)
        return serving._replace(evidence=f"restarted {named(tuple(self._restarted))}; {serving.evidence}")

    def _restart(self, target: int) -> str:
        shutdown = Restart(self.site, (target,)).inject()
        self._restarted.append(target)
        self.site.cluster.nodes[target].start()
        return shutdown


@dataclass
class CrashLoop:
    """Nodes that are killed and started in turns. `up_ms` counts from the start of the process."""

    site: Site
    targets: tuple[int, ...]
    up_ms: int
    down_ms: int
    deaths: int = 0
    _changed_ns: dict[int, int] = field(default_factory=dict)  # when a node was last started or killed

    def inject(self) -> str:
        """Kill the targets for the first time."""
        killed = Kill(self.site, self.targets).inject()
        self.deaths = len(self.targets)
        self._changed_ns = dict.fromkeys(self.targets, self.site.clock.now_ns())
        return f"{killed}, the first time of several: {self.up_ms} ms up, {self.down_ms} ms down"

    def tick(self) -> None:
        """Kill nodes that were up for `up_ms`; start nodes that were down for `down_ms`."""
        now_ns = self.site.clock.now_ns()
        for target in self.targets:
            node = self.site.cluster.nodes[target]
            lasted_ms = (now_ns - self._changed_ns[target]) // _NS_PER_MS
            if node.is_alive() and lasted_ms >= self.up_ms:
                node.kill()
                self.deaths += 1
                self._changed_ns[target] = now_ns
            elif not node.is_alive() and lasted_ms >= self.down_ms:
                node.start()
                self._changed_ns[target] = now_ns

    def undo(self) -> None:
        """Start the dead targets, for good."""
        start_dead(self.site, self.targets)

    def check_healed(self) -> Healing:
        """Check that all targets serve again."""
        serving = self.site.serving(self.targets)
        return serving._replace(evidence=f"{named(self.targets)} died {self.deaths} times; {serving.evidence}")


def _aim_kill(site: Site, targets: tuple[int, ...], _parameters: Parameters) -> Injection:
    return Kill(site, targets)


def _aim_pause(site: Site, targets: tuple[int, ...], _parameters: Parameters) -> Injection:
    return Pause(site, targets)


def _aim_restart(site: Site, targets: tuple[int, ...], _parameters: Parameters) -> Injection:
    return Restart(site, targets)


def _aim_rolling_restart(site: Site, targets: tuple[int, ...], _parameters: Parameters) -> Injection:
    return RollingRestart(site, targets)


def _aim_crash_loop(site: Site, targets: tuple[int, ...], parameters: Parameters) -> Injection:
    return CrashLoop(site, targets, int(parameters.get("up-ms", "800")), int(parameters.get("down-ms", "200")))


def _draw_crash_loop(draws: Draws) -> dict[str, str]:
    # From "killed while it recovers its logs" to "killed just after it serves again".
    return {"up-ms": str(draws.choice((300, 800, 1_500, 2_500))), "down-ms": str(draws.choice((0, 200, 1_000)))}


KILL = FaultKind(
    name="kill",
    needs=frozenset({"process"}),
    roles=("leader", "leader", "in-sync-follower", "broker", "minority", "active-controller"),
    draw=no_parameters,
    aim=_aim_kill,
    quorum_roles=("active-controller", "controller"),
)

POWER_CUT = FaultKind(
    name="power-cut",
    needs=frozenset({"process"}),
    roles=("brokers", "majority", "everyone"),
    draw=no_parameters,
    aim=_aim_kill,
)

PAUSE = FaultKind(
    name="pause",
    needs=frozenset({"process"}),
    roles=("leader", "leader", "in-sync-follower", "broker", "minority", "active-controller"),
    draw=no_parameters,
    aim=_aim_pause,
    quorum_roles=("active-controller", "controller"),
)

RESTART = FaultKind(
    name="restart",
    needs=frozenset({"process"}),
    roles=("leader", "in-sync-follower", "broker", "active-controller"),
    draw=no_parameters,
    aim=_aim_restart,
    quorum_roles=("active-controller", "controller"),
)

ROLLING_RESTART = FaultKind(
    name="rolling-restart",
    needs=frozenset({"process"}),
    roles=("brokers", "everyone"),
    draw=no_parameters,
    aim=_aim_rolling_restart,
    lasts_ms=(12_000, 18_000),
)

CRASH_LOOP = FaultKind(
    name="crash-loop",
    needs=frozenset({"process"}),
    roles=("leader", "in-sync-follower", "broker", "active-controller"),
    draw=_draw_crash_loop,
    aim=_aim_crash_loop,
    lasts_ms=(4_000, 8_000),
    quorum_roles=("controller",),
)
