"""Page-cache loss: kills a node *and* drops what it had not synced, as a power failure does.

The durability contract counts these faults: with `min.insync.replicas` = f + 1 an acknowledged record must survive
f of them at once. A broker's loss lasts from the crash until it is back in the ISR of all its partitions. A controller
syncs before it answers (QU-8, QU-16), so it has little to lose and must not lose anything that it acknowledged.
"""

from __future__ import annotations

from dataclasses import dataclass

from nemesis.capabilities.disks import PageCacheLoss, Survival
from nemesis.faults.base import FaultKind, Healing, Injection, Parameters, Site, no_parameters
from nemesis.faults.process import Kill, start_dead


@dataclass(frozen=True)
class LosePageCache:
    """Nodes that are killed and lose unsynced data."""

    site: Site
    targets: tuple[int, ...]
    survival: Survival = "nothing"
    seed: int = 0  # decides what survives

    def inject(self) -> str:
        """Kill the targets, then drop what they had not synced."""
        killed = Kill(self.site, self.targets).inject()
        losses = {target: self._lose(target) for target in self.targets}
        return f"{killed}; {'; '.join(_format(target, loss) for target, loss in losses.items())}"

    def _lose(self, target: int) -> PageCacheLoss:
        return self.site.cluster.nodes[target].lose_page_cache(self.survival, self.seed)

    def undo(self) -> None:
        """Start the dead targets."""
        start_dead(self.site, self.targets)

    def check_healed(self) -> Healing:
        """Check that all targets serve again."""
        return self.site.serving(self.targets)


def _format(target: int, loss: PageCacheLoss) -> str:
    if not loss.lost_bytes:
        return f"node {target} had synced everything: 0 bytes lost by {loss.mechanism}"
    kept = f", {loss.survived_bytes:,} unsynced bytes survived" if loss.survived_bytes else ""
    return f"node {target} lost {loss.lost_bytes:,} bytes in {len(loss.files)} files by {loss.mechanism}{kept}"


def _aim(site: Site, targets: tuple[int, ...], _parameters: Parameters) -> Injection:
    return LosePageCache(site, targets)


PAGE_CACHE_LOSS = FaultKind(
    name="page-cache-loss",
    needs=frozenset({"process", "page-cache-loss"}),
    roles=("leader", "leader", "in-sync-follower", "broker"),
    draw=no_parameters,
    aim=_aim,
    lossy=True,
    quorum_roles=("active-controller", "controller"),
)


SURVIVALS: dict[str, Survival] = {"prefix": "prefix", "torn": "torn", "zeros": "zeros"}


def _aim_torn(site: Site, targets: tuple[int, ...], parameters: Parameters) -> Injection:
    survival = SURVIVALS.get(parameters.get("survives", ""), "torn")
    return LosePageCache(site, targets, survival, int(parameters.get("seed", "0")))


TORN_PAGE_CACHE_LOSS = FaultKind(
    name="torn-page-cache-loss",
    needs=frozenset({"process", "page-cache-loss"}),
    roles=("leader", "leader", "in-sync-follower", "broker"),
    draw=lambda draws: {"survives": draws.choice(tuple(SURVIVALS)), "seed": str(draws.below(1 << 30))},
    aim=_aim_torn,
    lossy=True,
)
