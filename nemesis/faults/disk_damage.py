"""Damages the files of a dead node: flipped bits, truncated or lost files, an empty disk, an older state.

All damage is durable and happens while the node is dead. The durability contract counts each of these as a lossy
shutdown: the node may lack anything that it had.

Damage to a log or an index also removes the recovery-point checkpoint, which says how much of the logs need not be read
when a node starts. With the checkpoint a node trusts what was synced, and may: no broker checks its old segments at
every start. Without it (ST-7) the node reads everything, and finds the damage.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatch

from nemesis.capabilities.cluster import Capability
from nemesis.capabilities.disks import BreakableDisk
from nemesis.draws import Draws
from nemesis.faults.base import FaultKind, Healing, Injection, NotInEffect, Parameters, Site, no_parameters
from nemesis.faults.process import Kill, start_dead
from nemesis.targets import Role

PATTERNS = {"log": ("*.log",), "index": ("*.index", "*.timeindex"), "checkpoint": ("*-checkpoint",)}
"""Files of a Kafka log directory by what they are."""

RECOVERY_POINT = "recovery-point-offset-checkpoint"
_ROLES: tuple[Role, ...] = ("leader", "leader", "in-sync-follower", "broker")
_DRAWN_BELOW = 1 << 30
_NEEDS: frozenset[Capability] = frozenset({"process", "disk-damage", "plain-broker"})


@dataclass(frozen=True)
class Damage:
    """Dead nodes with damaged files."""

    site: Site
    targets: tuple[int, ...]
    what: str  # "flip", "truncate", "remove", "wipe"
    files: str  # a key of PATTERNS
    pick: int  # decides which file and where

    def inject(self) -> str:
        """Kill the targets, and damage their disks."""
        killed = Kill(self.site, self.targets).inject()
        damage = [f"node {target}: {self._damage(self.site.cluster.nodes[target].disk)}" for target in self.targets]
        return f"{killed}; {'; '.join(damage)}"

    def undo(self) -> None:
        """Start the dead targets."""
        start_dead(self.site, self.targets)

    def check_healed(self) -> Healing:
        """Check that all targets serve again."""
        return self.site.serving(self.targets)

    def _damage(self, disk: BreakableDisk) -> str:
        if self.what == "wipe":
            lost = disk.wipe()
            if disk.files():
                raise NotInEffect("files are left on a disk that was emptied")
            return f"the disk is empty, {lost:,} bytes are gone"
        draws = Draws(self.pick, "damage")
        name, size = self._choose(disk, draws)
        if self.what == "flip":
            bit = draws.below(min(size, _DRAWN_BELOW)) * 8 + draws.below(8)
            disk.flip_bit(name, bit)
            damage = f"bit {bit % 8} of byte {bit // 8} of {name} flipped"
        elif self.what == "truncate":
            left = draws.below(min(size, _DRAWN_BELOW))
            disk.truncate(name, left)
            damage = f"{name} truncated from {size} to {disk.files()[name]} bytes"
        else:
            disk.remove(name)
            damage = f"{name} of {size} bytes removed"
        return damage + self._remove_recovery_point(disk)

    def _choose(self, disk: BreakableDisk, draws: Draws) -> tuple[str, int]:
        files = _matching(disk, self.files) or _matching(disk, "log")  # a short log may have an empty index
        if not files:
            raise NotInEffect(f"there is no {self.files} file that is not empty")
        name = draws.choice(sorted(files))
        return name, files[name]

    def _remove_recovery_point(self, disk: BreakableDisk) -> str:
        if self.files == "checkpoint" or RECOVERY_POINT not in disk.files():
            return ""
        disk.remove(RECOVERY_POINT)
        return f", {RECOVERY_POINT} removed"


def _matching(disk: BreakableDisk, files: str) -> dict[str, int]:
    return {
        name: size
        for name, size in disk.files().items()
        if size and any(fnmatch(name, pattern) for pattern in PATTERNS[files])
    }


@dataclass
class Rollback:
    """Nodes whose disk is rolled back to an older state when the fault is over."""

    site: Site
    targets: tuple[int, ...]
    _copied: bool = False
    _rollbacks: list[str] = field(default_factory=list)

    def inject(self) -> str:
        """Copy the targets' disks while the targets are paused, then resume them."""
        copies = []
        for target in self.targets:
            node = self.site.cluster.nodes[target]
            node.pause()
            try:
                copies.append(f"{node.disk.keep_copy():,} bytes of node {target} copied")
            finally:
                node.resume()
        self._copied = True
        return f"{'; '.join(copies)}, to be restored later"

    def undo(self) -> None:
        """Kill the targets, put the copies back, and start them."""
        for target in self.targets:
            node = self.site.cluster.nodes[target]
            if self._copied:
                node.kill()
                self._rollbacks.append(f"node {target} was rolled back by {node.disk.go_back_to_copy():,} bytes")
        self._copied = False
        start_dead(self.site, self.targets)

    def check_healed(self) -> Healing:
        """Check that all targets serve again."""
        serving = self.site.serving(self.targets)
        return serving._replace(evidence="; ".join([*self._rollbacks, serving.evidence]))


def _damaging(name: str, what: str, files: tuple[str, ...]) -> FaultKind:
    def draw(draws: Draws) -> dict[str, str]:
        drawn = {"files": draws.choice(files)} if files else {}
        return drawn | {"pick": str(draws.below(_DRAWN_BELOW))}

    def aim(site: Site, targets: tuple[int, ...], parameters: Parameters) -> Injection:
        wanted = parameters.get("files", "log")
        return Damage(site, targets, what, wanted if wanted in PATTERNS else "log", int(parameters.get("pick", "0")))

    return FaultKind(
        name=name,
        needs=_NEEDS,
        roles=_ROLES,
        draw=draw,
        aim=aim,
    )


def _aim_rollback(site: Site, targets: tuple[int, ...], _parameters: Parameters) -> Injection:
    return Rollback(site, targets)


BIT_FLIP = _damaging("bit-flip", "flip", ("log", "log", "index"))

FILE_TRUNCATION = _damaging("file-truncation", "truncate", ("log", "index", "checkpoint"))

FILE_LOSS = _damaging("file-loss", "remove", ("log", "index", "checkpoint"))

DISK_LOSS = _damaging("disk-loss", "wipe", ())

DISK_ROLLBACK = FaultKind(
    name="disk-rollback",
    needs=_NEEDS,
    roles=_ROLES,
    draw=no_parameters,
    aim=_aim_rollback,
    lasts_ms=(2_000, 6_000),
)

DISK_DAMAGE = (BIT_FLIP, FILE_TRUNCATION, FILE_LOSS, DISK_LOSS, DISK_ROLLBACK)
