"""Makes the disk of a running node fail (full, I/O errors, slow, stalled), or lose what was not synced.

How a broker reacts to a failing disk is its own decision; Kafka's gives the log directory up, and exits with its last
one (TR-6). A node that exited is started again when the trouble is over.

Page-cache loss kills a node *and* drops what it had not synced, as a power failure does. The durability contract counts
these faults: with `min.insync.replicas` = f + 1 an acknowledged record must survive f of them at once. A broker's loss
lasts from the crash until it is back in the ISR of all its partitions. A controller syncs before it answers (QU-8,
QU-16), so it has little to lose and must not lose anything that it acknowledged. `lying-fsync` counts as well: when it
ends, the node is killed, and what the disk had only pretended to sync is lost with the page cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nemesis.capabilities.disks import PageCacheLoss, Survival, Trouble
from nemesis.draws import Draws
from nemesis.faults.base import FaultKind, Healing, Injection, Parameters, Site, named, no_parameters
from nemesis.faults.process import Kill, start_dead
from nemesis.targets import Role

_ROLES: tuple[Role, ...] = ("leader", "leader", "in-sync-follower", "broker")

_STEADY_NS = 1_000_000_000
"""How long a node must serve: one that has met an error may still be about to exit because of it."""


@dataclass
class DiskTrouble:
    """Nodes whose disk fails."""

    site: Site
    targets: tuple[int, ...]
    trouble: Trouble
    delay_ms: int = 0
    _serves_since_ns: int | None = None

    def inject(self) -> str:
        """Begin the trouble, and wait until requests of the targets have met it."""
        nodes = self.site.cluster.nodes
        self.site.require_alive(self.targets)
        for target in self.targets:
            nodes[target].disk.make_trouble(self.trouble, self.delay_ms)
        self.site.await_effect(
            lambda: all(nodes[target].disk.met_trouble() for target in self.targets),
            f"{named(self.targets)} made no disk request that the trouble affects ({self.trouble})",
        )
        met = sum(nodes[target].disk.met_trouble() for target in self.targets)
        delay = f" of {self.delay_ms} ms" if self.delay_ms else ""
        return f"the disk of {named(self.targets)} is in trouble: {self.trouble}{delay}, met {met} times so far"

    def undo(self) -> None:
        """End the trouble; start targets that died of it."""
        for target in self.targets:
            self.site.cluster.nodes[target].disk.end_trouble()
        start_dead(self.site, self.targets)

    def check_healed(self) -> Healing:
        """Check that all targets serve again and go on serving; one may die of the trouble only now."""
        start_dead(self.site, self.targets)
        serving = self.site.serving(self.targets)
        now_ns = self.site.clock.now_ns()
        if not serving.healed or self._serves_since_ns is None:
            self._serves_since_ns = now_ns if serving.healed else None
        elif now_ns - self._serves_since_ns >= _STEADY_NS:
            return serving
        return Healing(False, f"{named(self.targets)} did not serve for a second")


@dataclass
class LyingFsync:
    """Nodes whose disk reports a sync that it did not make."""

    site: Site
    targets: tuple[int, ...]
    trouble: Trouble
    _lied: bool = False
    _losses: list[str] = field(default_factory=list)

    def inject(self) -> str:
        """Make fsync do nothing, and wait until the targets have called it."""
        evidence = DiskTrouble(self.site, self.targets, self.trouble).inject()
        self._lied = True
        return evidence

    def undo(self) -> None:
        """Kill the targets, drop what was never synced, and start them on a working disk."""
        nodes = self.site.cluster.nodes
        for target in self.targets:
            node = nodes[target]
            lies = node.disk.met_trouble()
            if self._lied:
                node.kill()
                loss = node.lose_page_cache()
                self._losses.append(f"node {target} lost {loss.lost_bytes:,} bytes after {lies} requests to sync")
            node.disk.end_trouble()
        start_dead(self.site, self.targets)

    def check_healed(self) -> Healing:
        """Check that all targets serve again."""
        serving = self.site.serving(self.targets)
        return serving._replace(evidence="; ".join([*self._losses, serving.evidence]))


def _kind(
    name: str,
    troubles: Sequence[Trouble],
    needs: str = "disk-trouble",
    delays_ms: Sequence[int] = (),
) -> FaultKind:
    """Return a kind that draws the trouble and, for slow ones, the delay of a request."""

    def draw(draws: Draws) -> dict[str, str]:
        drawn = {"trouble": draws.choice(troubles)} if len(troubles) > 1 else {}
        return drawn | ({"delay-ms": str(draws.choice(delays_ms))} if delays_ms else {})

    def aim(site: Site, targets: tuple[int, ...], parameters: Parameters) -> Injection:
        wanted = parameters.get("trouble", troubles[0])
        trouble = next((one for one in troubles if one == wanted), troubles[0])
        delay_ms = int(parameters.get("delay-ms", delays_ms[0])) if delays_ms else 0
        return DiskTrouble(site, targets, trouble, delay_ms)

    return FaultKind(
        name=name,
        needs=frozenset({"process", "disk-full" if needs == "disk-full" else "disk-trouble"}),
        roles=_ROLES,
        draw=draw,
        aim=aim,
        lasts_ms=(3_000, 7_000),
    )


FULL_DISK = _kind("full-disk", ("full",), needs="disk-full")

DISK_ERROR = _kind(
    "disk-error",
    ("write-error", "fsync-error", "read-error", "error"),
)

SLOW_DISK = _kind(
    "slow-disk",
    ("slow-fsync", "slow"),
    delays_ms=(50, 200, 1_000),
)

DISK_STALL = _kind("disk-stall", ("stall",))


def _aim_lie(site: Site, targets: tuple[int, ...], parameters: Parameters) -> Injection:
    return LyingFsync(site, targets, "fsync-fails-then-lies" if parameters.get("first") == "fails" else "fsync-lies")


LYING_FSYNC = FaultKind(
    name="lying-fsync",
    needs=frozenset({"process", "page-cache-loss", "disk-trouble", "plain-broker"}),
    roles=_ROLES,
    draw=lambda draws: {"first": draws.choice(("lies", "fails"))},
    aim=_aim_lie,
    lasts_ms=(3_000, 7_000),
)

DISK_TROUBLE = (FULL_DISK, DISK_ERROR, SLOW_DISK, DISK_STALL, LYING_FSYNC)


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
        return f"{killed}; {'; '.join(_loss_text(target, loss) for target, loss in losses.items())}"

    def _lose(self, target: int) -> PageCacheLoss:
        return self.site.cluster.nodes[target].lose_page_cache(self.survival, self.seed)

    def undo(self) -> None:
        """Start the dead targets."""
        start_dead(self.site, self.targets)

    def check_healed(self) -> Healing:
        """Check that all targets serve again."""
        return self.site.serving(self.targets)


def _loss_text(target: int, loss: PageCacheLoss) -> str:
    if not loss.lost_bytes:
        return f"node {target} had synced everything: 0 bytes lost by {loss.mechanism}"
    kept = f", {loss.survived_bytes:,} unsynced bytes survived" if loss.survived_bytes else ""
    return f"node {target} lost {loss.lost_bytes:,} bytes in {len(loss.files)} files by {loss.mechanism}{kept}"


def _aim_loss(site: Site, targets: tuple[int, ...], _parameters: Parameters) -> Injection:
    return LosePageCache(site, targets)


PAGE_CACHE_LOSS = FaultKind(
    name="page-cache-loss",
    needs=frozenset({"process", "page-cache-loss"}),
    roles=("leader", "leader", "in-sync-follower", "broker"),
    draw=no_parameters,
    aim=_aim_loss,
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
)
