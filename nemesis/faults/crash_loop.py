"""Crash loop: a node that dies again and again, often before it has recovered from the last time."""

from __future__ import annotations

from dataclasses import dataclass, field

from nemesis.draws import Draws
from nemesis.faults.base import Healing, Injection, Kind, Parameters, Site, named
from nemesis.faults.kill import Kill, start_dead

_NS_PER_MS = 1_000_000


@dataclass
class CrashLoop:
    """Nodes that are started and killed in turns. `up_ms` counts from the start of the process."""

    site: Site
    targets: tuple[int, ...]
    up_ms: int
    down_ms: int
    deaths: int = 0
    _changed_ns: dict[int, int] = field(default_factory=dict)  # when a node was last started or killed

    def inject(self) -> str:
        """Kill the targets for the first time."""
        told = Kill(self.site, self.targets).inject()
        self.deaths = len(self.targets)
        self._changed_ns = dict.fromkeys(self.targets, self.site.clock.now_ns())
        return f"{told}, the first time of several: {self.up_ms} ms up, {self.down_ms} ms down"

    def keep(self) -> None:
        """Kill who has been up for long enough; start who has been down for long enough."""
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
        """Start what is dead, for good."""
        start_dead(self.site, self.targets)

    def look(self) -> Healing:
        """See whether all targets serve again."""
        serving = self.site.serving(self.targets)
        return serving._replace(told=f"{named(self.targets)} died {self.deaths} times; {serving.told}")


def _aim(site: Site, targets: tuple[int, ...], parameters: Parameters) -> Injection:
    return CrashLoop(site, targets, int(parameters.get("up-ms", "800")), int(parameters.get("down-ms", "200")))


def _draw(draws: Draws) -> dict[str, str]:
    # From "killed while it recovers its logs" to "killed just after it serves again".
    return {"up-ms": str(draws.choice((300, 800, 1_500, 2_500))), "down-ms": str(draws.choice((0, 200, 1_000)))}


CRASH_LOOP = Kind(
    name="crash-loop",
    family="process",
    summary="SIGKILL a node, start it, and SIGKILL it again, over and over",
    needs=frozenset({"process"}),
    roles=("leader", "in-sync-follower", "broker", "active-controller"),
    draw=_draw,
    aim=_aim,
    lasts_ms=(4_000, 8_000),
    quorum_roles=("controller",),
)
