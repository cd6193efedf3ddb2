"""A disk in trouble under a node that runs: it is full, fails, lies, is slow, or answers nothing.

What a broker does about it is its own affair; Kafka's gives the log directory up, and ends with its last one (TR-6).
A node that ended is started again when the trouble is over.

`lying-fsync` is the exception among them, because it does harm when it is over: the node is killed then, and what the
disk had only pretended to sync is lost with the page cache. To the contract that is a lossy shutdown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nemesis.capabilities.disks import Trouble
from nemesis.draws import Draws
from nemesis.faults.base import Healing, Injection, Kind, Parameters, Site, named
from nemesis.faults.kill import start_dead
from nemesis.targets import Role

_ROLES: tuple[Role, ...] = ("leader", "leader", "in-sync-follower", "broker")


_STEADY_NS = 1_000_000_000
"""A node that has met an error may still be about to end of it: it must serve for so long."""


@dataclass
class DiskTrouble:
    """Nodes whose disk is in trouble."""

    site: Site
    targets: tuple[int, ...]
    trouble: Trouble
    delay_ms: int = 0
    _serves_since_ns: int | None = None

    def inject(self) -> str:
        """Begin the trouble, and wait until the targets have met with it."""
        nodes = self.site.cluster.nodes
        self.site.require_alive(self.targets)
        for target in self.targets:
            nodes[target].disk.make_trouble(self.trouble, self.delay_ms)
        self.site.await_effect(
            lambda: all(nodes[target].disk.met_trouble() for target in self.targets),
            f"{named(self.targets)} asked nothing of the disk that it would have refused ({self.trouble})",
        )
        met = sum(nodes[target].disk.met_trouble() for target in self.targets)
        delay = f" of {self.delay_ms} ms" if self.delay_ms else ""
        return f"the disk of {named(self.targets)} is in trouble: {self.trouble}{delay}, met {met} times so far"

    def undo(self) -> None:
        """End the trouble; start who died of it."""
        for target in self.targets:
            self.site.cluster.nodes[target].disk.end_trouble()
        start_dead(self.site, self.targets)

    def look(self) -> Healing:
        """See whether all targets serve again, and go on doing so; one may die of it only now."""
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
    """Nodes whose disk says that it has synced, and has not."""

    site: Site
    targets: tuple[int, ...]
    trouble: Trouble
    _lied: bool = False
    _losses: list[str] = field(default_factory=list)

    def inject(self) -> str:
        """Begin to lie, and wait until the targets have heard the first lie."""
        told = DiskTrouble(self.site, self.targets, self.trouble).inject()
        self._lied = True
        return told

    def undo(self) -> None:
        """Let it come out: kill the targets, lose what was never synced, and start them on an honest disk."""
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

    def look(self) -> Healing:
        """See whether all targets serve again."""
        serving = self.site.serving(self.targets)
        return serving._replace(told="; ".join([*self._losses, serving.told]))


def _kind(
    name: str,
    summary: str,
    troubles: Sequence[Trouble],
    needs: str = "disk-trouble",
    delays_ms: Sequence[int] = (),
) -> Kind:
    """Make a kind that draws which trouble and, for slow ones, how long a request takes."""

    def draw(draws: Draws) -> dict[str, str]:
        drawn = {"trouble": draws.choice(troubles)} if len(troubles) > 1 else {}
        return drawn | ({"delay-ms": str(draws.choice(delays_ms))} if delays_ms else {})

    def aim(site: Site, targets: tuple[int, ...], parameters: Parameters) -> Injection:
        wanted = parameters.get("trouble", troubles[0])
        trouble = next((one for one in troubles if one == wanted), troubles[0])
        delay_ms = int(parameters.get("delay-ms", delays_ms[0])) if delays_ms else 0
        return DiskTrouble(site, targets, trouble, delay_ms)

    return Kind(
        name=name,
        family="disk",
        summary=summary,
        needs=frozenset({"process", "disk-full" if needs == "disk-full" else "disk-trouble"}),
        roles=_ROLES,
        draw=draw,
        aim=aim,
        lasts_ms=(3_000, 7_000),
    )


FULL_DISK = _kind("full-disk", "leave a node no room on its disk (ENOSPC)", ("full",), needs="disk-full")

DISK_ERROR = _kind(
    "disk-error",
    "have a node's disk fail (EIO) at reading, writing, syncing, or all of it",
    ("write-error", "fsync-error", "read-error", "error"),
)

SLOW_DISK = _kind(
    "slow-disk",
    "have a node's disk take long, for syncing or for everything",
    ("slow-fsync", "slow"),
    delays_ms=(50, 200, 1_000),
)

DISK_STALL = _kind("disk-stall", "have a node's disk answer nothing at all for a while", ("stall",))


def _aim_lie(site: Site, targets: tuple[int, ...], parameters: Parameters) -> Injection:
    return LyingFsync(site, targets, "fsync-fails-then-lies" if parameters.get("first") == "fails" else "fsync-lies")


LYING_FSYNC = Kind(
    name="lying-fsync",
    family="disk",
    summary="have fsync say that it synced and do nothing; then kill the node and lose its page cache",
    needs=frozenset({"process", "page-cache-loss", "disk-trouble", "plain-broker"}),
    roles=_ROLES,
    draw=lambda draws: {"first": draws.choice(("lies", "fails"))},
    aim=_aim_lie,
    lossy=True,
    lasts_ms=(3_000, 7_000),
)

DISK_TROUBLE = (FULL_DISK, DISK_ERROR, SLOW_DISK, DISK_STALL, LYING_FSYNC)
