"""Rolling restart: every node in turn is shut down in good order and started again, as in an upgrade."""

from __future__ import annotations

from dataclasses import dataclass, field

from nemesis.faults.base import Healing, Injection, Kind, Parameters, Site, named, no_parameters
from nemesis.faults.kill import start_dead
from nemesis.faults.restart import Restart


@dataclass
class RollingRestart:
    """Nodes that are restarted one after the other; the next one goes once the last one serves."""

    site: Site
    targets: tuple[int, ...]
    _restarted: list[int] = field(default_factory=list)  # the last of them may still be on its way back

    def inject(self) -> str:
        """Restart the first node."""
        told = self._restart(self.targets[0])
        return f"{told}, the first of {len(self.targets)}"

    def keep(self) -> None:
        """Restart the next node if the last one serves."""
        left = self.targets[len(self._restarted) :]
        if left and self.site.serving(self._restarted[-1:]).healed:
            self._restart(left[0])

    def undo(self) -> None:
        """Start what is dead. The nodes whose turn has not come are left as they are."""
        start_dead(self.site, self.targets)

    def look(self) -> Healing:
        """See whether all targets serve again."""
        serving = self.site.serving(self.targets)
        return serving._replace(told=f"restarted {named(tuple(self._restarted))}; {serving.told}")

    def _restart(self, target: int) -> str:
        told = Restart(self.site, (target,)).inject()
        self._restarted.append(target)
        self.site.cluster.nodes[target].start()
        return told


def _aim(site: Site, targets: tuple[int, ...], _parameters: Parameters) -> Injection:
    return RollingRestart(site, targets)


ROLLING_RESTART = Kind(
    name="rolling-restart",
    family="process",
    summary="controlled shutdown and start of one node after the other",
    needs=frozenset({"process"}),
    roles=("brokers", "everyone"),
    draw=no_parameters,
    aim=_aim,
    lasts_ms=(12_000, 18_000),
)
