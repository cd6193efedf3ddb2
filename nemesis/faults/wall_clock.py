"""Sets the wall clocks of nodes wrong: they jump, jump back and forth, or run too fast or too slow.

A broker's promises must not depend on the time of day. Undoing sets the clocks right, which is a jump too.
"""

from __future__ import annotations

from dataclasses import dataclass

from nemesis.capabilities.cluster import ClusterNode
from nemesis.draws import Draws
from nemesis.faults.base import FaultKind, Healing, Injection, NotInEffect, Parameters, Site, named
from nemesis.faults.process import start_dead
from nemesis.targets import Role

_ROLES: tuple[Role, ...] = ("leader", "in-sync-follower", "minority", "controller")
_TOLERANCE_MS = 200.0
_NS_PER_MS = 1_000_000


@dataclass
class WrongClock:
    """Nodes with a wrong clock. With `period_ms` other than 0 it is wrong and right in turns."""

    site: Site
    targets: tuple[int, ...]
    offset_ms: float
    drift_ppm: int = 0
    period_ms: int = 0
    jumps: int = 0
    _changed_ns: int = 0

    def inject(self) -> str:
        """Set the clocks wrong, and check that they are and that the targets' processes use them."""
        nodes = [self.site.cluster.nodes[target] for target in self.targets]
        others = tuple(node.node_id for node in nodes if not _uses_its_clock(node))
        if others:
            raise NotInEffect(f"{named(others)} does not use a clock that can be set")
        for node in nodes:
            node.clock.bend(self.offset_ms, self.drift_ppm)
        self._count_jump()
        self.site.await_effect(
            lambda: all(map(self._is_wrong, nodes)), f"the clock of {named(self.targets)} stayed right"
        )
        errors = " and ".join(f"{node.clock.error_ms():+,.0f} ms" for node in nodes)
        drift = f", gaining {self.drift_ppm / 10_000:+g} %" if self.drift_ppm else ""
        turns = f", in turns of {self.period_ms} ms" if self.period_ms else ""
        return f"the clock of {named(self.targets)} is off by {errors}{drift}{turns}"

    def tick(self) -> None:
        """Jump back or forth when a period has passed."""
        if not self.period_ms or self.site.clock.now_ns() - self._changed_ns < self.period_ms * _NS_PER_MS:
            return
        for target in self.targets:
            self.site.cluster.nodes[target].clock.bend(0 if self.jumps % 2 else self.offset_ms, self.drift_ppm)
        self._count_jump()

    def undo(self) -> None:
        """Set the clocks right; start a node that died meanwhile."""
        for target in self.targets:
            self.site.cluster.nodes[target].clock.straighten()
        start_dead(self.site, self.targets)

    def check_healed(self) -> Healing:
        """Check that the clocks are right and the nodes serve."""
        nodes = [self.site.cluster.nodes[target] for target in self.targets]
        wrong = tuple(node.node_id for node in nodes if abs(node.clock.error_ms()) > _TOLERANCE_MS)
        if wrong:
            return Healing(False, f"the clock of {named(wrong)} is still wrong")
        serving = self.site.serving(self.targets)
        asked = sum(node.clock.answers() for node in nodes)
        return serving._replace(
            evidence=f"the clock is right after {self.jumps} jumps, asked {asked} times; {serving.evidence}"
        )

    def _count_jump(self) -> None:
        self.jumps += 1
        self._changed_ns = self.site.clock.now_ns()

    def _is_wrong(self, node: ClusterNode) -> bool:
        error_ms = node.clock.error_ms()
        if self.drift_ppm:
            since_ms = (self.site.clock.now_ns() - self._changed_ns) / _NS_PER_MS
            gained_ms = since_ms * self.drift_ppm / 1_000_000
            return error_ms * gained_ms > 0 and abs(error_ms) >= min(_TOLERANCE_MS, abs(gained_ms) / 2)
        return abs(error_ms - self.offset_ms) <= _TOLERANCE_MS


def _uses_its_clock(node: ClusterNode) -> bool:
    return node.pid is not None and node.is_alive() and node.clock.governs(node.pid)


def _aim_jump(site: Site, targets: tuple[int, ...], parameters: Parameters) -> Injection:
    return WrongClock(site, targets, float(parameters.get("offset-ms", "60000")))


def _aim_strobe(site: Site, targets: tuple[int, ...], parameters: Parameters) -> Injection:
    offset_ms = float(parameters.get("offset-ms", "5000"))
    return WrongClock(site, targets, offset_ms, period_ms=int(parameters.get("period-ms", "200")))


def _aim_drift(site: Site, targets: tuple[int, ...], parameters: Parameters) -> Injection:
    return WrongClock(site, targets, 0.0, drift_ppm=int(float(parameters.get("percent", "50")) * 10_000))


def _draw_jump(draws: Draws) -> dict[str, str]:
    # Half a second, a minute, an hour, and a year, either way.
    offset_ms = draws.choice((500, 60_000, 3_600_000, 31_536_000_000))
    return {"offset-ms": str(draws.choice((-1, 1)) * offset_ms)}


def _draw_strobe(draws: Draws) -> dict[str, str]:
    offset_ms = draws.choice((-1, 1)) * draws.choice((1_000, 60_000))
    return {"offset-ms": str(offset_ms), "period-ms": str(draws.choice((50, 200, 1_000)))}


CLOCK_JUMP = FaultKind(
    name="clock-jump",
    needs=frozenset({"clock"}),
    roles=_ROLES,
    draw=_draw_jump,
    aim=_aim_jump,
)

CLOCK_STROBE = FaultKind(
    name="clock-strobe",
    needs=frozenset({"clock"}),
    roles=_ROLES,
    draw=_draw_strobe,
    aim=_aim_strobe,
    lasts_ms=(3_000, 6_000),
)

CLOCK_DRIFT = FaultKind(
    name="clock-drift",
    needs=frozenset({"clock"}),
    roles=_ROLES,
    draw=lambda draws: {"percent": str(draws.choice((-50, -10, 10, 100)))},
    aim=_aim_drift,
    lasts_ms=(3_000, 6_000),
)

CLOCKS = (CLOCK_JUMP, CLOCK_STROBE, CLOCK_DRIFT)
