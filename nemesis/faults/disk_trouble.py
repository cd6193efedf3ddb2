"""Makes the disk of a running node fail: full, I/O errors, fsync without effect, slow, or stalled.

How a broker reacts is its own decision; Kafka's gives the log directory up, and exits with its last one (TR-6).
A node that exited is started again when the trouble is over.

`lying-fsync` differs: it does harm when it ends. The node is killed then, and what the disk had only pretended to sync
is lost with the page cache. The durability contract counts that as a lossy shutdown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nemesis.capabilities.disks import Trouble
from nemesis.draws import Draws
from nemesis.faults.base import FaultKind, Healing, Injection, Parameters, Site, named
from nemesis.faults.process import start_dead
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
    lossy=True,
    lasts_ms=(3_000, 7_000),
)

DISK_TROUBLE = (FULL_DISK, DISK_ERROR, SLOW_DISK, DISK_STALL, LYING_FSYNC)
