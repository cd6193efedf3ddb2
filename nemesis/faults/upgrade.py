"""The upgrade of a running cluster: node by node, from the version that it runs to the next.

A node is shut down in a controlled way and started with the next version. The next node has its turn when this one

- reports that it runs the next version, and serves,
- as a broker is registered, and in the ISR of every partition of which it has a replica,
- as a controller follows the active one and has all committed metadata.

A step that does not get there within the time to heal ends the upgrade: the cluster keeps both versions. A node that
ends by itself under the next version is not started again, with neither.

Brokers come before controllers, or after them (the parameter `first`), and the active controller is the last of the
controllers, so that no election leads back to the old version. A combined node counts as a controller.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from nemesis.capabilities.cluster import NodeError, NodeLost, active_among, is_broker, is_controller
from nemesis.capabilities.versions import UpgradableNode
from nemesis.faults.base import FaultKind, Healing, Injection, NotInEffect, Parameters, Site, named, no_parameters
from nemesis.faults.process import Restart, start_dead

FIRST = "first"
"""The parameter that says whose turn is first."""

BROKERS, CONTROLLERS = "brokers", "controllers"


@dataclass
class Upgrade:
    """Nodes that are restarted with the next version, one after the other."""

    site: Site
    targets: tuple[int, ...]
    first: str = BROKERS
    _begun: list[int] = field(default_factory=list)  # nodes that were restarted; the last may not be through
    _through: list[int] = field(default_factory=list)
    _until_ns: int = 0  # when the last step must be through
    _skipped: tuple[int, ...] = ()  # they run the next version already
    _lost: int | None = None

    def inject(self) -> str:
        """Restart the first node with the next version."""
        self.site.require_alive(self.targets)
        old = {self._node(target).version() for target in self.targets}
        self._skipped = tuple(target for target in self.targets if self._runs_next(target))
        if not self._left:
            raise NotInEffect(f"{named(self.targets)} run {self._next} already")
        shutdown = self._begin(self._left[0])
        before = " and ".join(sorted(version for version in old - {self._next} if version is not None))
        return (
            f"{shutdown}, the first of {len(self._left) + 1}, to be upgraded from {before or 'unknown'} to {self._next}"
        )

    def tick(self) -> None:
        """Restart the next node if the step of the previous one is through."""
        current = self._begun[-1]
        if current not in self._through:
            if (missing := self._missing(current)) is None:
                self._through.append(current)
            elif self.site.clock.now_ns() >= self._until_ns:
                raise NodeError(f"{missing} within {self.site.bounds.heal_s:g} s after its start with {self._next}")
        elif self._left:
            self._begin(self._left[0])

    def is_complete(self) -> bool:
        """Whether every node was upgraded, and its step is through."""
        return not self._left and self._begun == self._through

    def undo(self) -> None:
        """Start the dead targets but for one that ended by itself. Nodes keep the versions that they have."""
        start_dead(self.site, tuple(target for target in self.targets if target != self._lost))

    def check_healed(self) -> Healing:
        """Check that all targets serve again, and the last upgraded one is through."""
        progress = self._progress()
        try:
            serving = self.site.serving(self.targets)
        except NodeLost as error:
            raise NodeLost(f"{progress}; {error}") from error
        missing = self._missing(self._begun[-1]) if self._begun else None
        if serving.healed and missing is not None:
            return Healing(False, f"{progress}; {missing}")
        return serving._replace(evidence=f"{progress}; {serving.evidence}")

    def _progress(self) -> str:
        left = tuple(each for each in self.targets if each not in (*self._through, *self._skipped))
        if not self._through:
            return f"did not upgrade {named(left or self.targets)} to {self._next}"
        done = f"upgraded {named(tuple(self._through))} to {self._next}"
        return f"{done}, but not {named(left)}" if left else done

    def _begin(self, target: int) -> str:
        node = self._node(target)
        shutdown = Restart(self.site, (target,)).inject()
        self._begun.append(target)
        node.use_next_version()
        self.site.cluster.nodes[target].start()
        self._until_ns = self.site.clock.now_ns() + int(self.site.bounds.heal_s * 1e9)
        return shutdown

    @property
    def _left(self) -> list[int]:
        """The nodes whose turn has not come, in the order of their turns if none of them changes its role."""
        nodes, active = self.site.cluster.nodes, self.site.cluster.active_controller()

        def turn(target: int) -> tuple[bool, bool, int]:
            votes = is_controller(nodes[target])
            return votes == (self.first == BROKERS), votes and target == active, target

        return sorted((each for each in self.targets if each not in (*self._begun, *self._skipped)), key=turn)

    def _missing(self, target: int) -> str | None:
        """What keeps an upgraded node from being through; None: nothing. Raises `NodeLost` if it has ended."""
        node, upgraded = self.site.cluster.nodes[target], self._node(target)
        if not node.is_alive():
            self._lost = target
            raise NodeLost(f"node {target} ended by itself after its start with {self._next}")
        if not node.is_ready():
            return f"node {target} did not serve"
        if (version := upgraded.version()) != self._next:
            return f"node {target} reported to run {version}, not {self._next},"
        if is_controller(node) and (missing := self._missing_in_quorum(target)) is not None:
            return missing
        return self._missing_in_isr(target) if is_broker(node) else None

    def _missing_in_quorum(self, target: int) -> str | None:
        voters = self.site.cluster.voters()
        active = active_among(voters)
        own = next((voter for voter in voters if voter.controller == target), None)
        if active is None or own is None or own.leader != active.controller:
            return f"controller {target} did not follow an active controller"
        return None if own.log_end >= active.high_watermark else f"controller {target} lacked committed metadata"

    def _missing_in_isr(self, target: int) -> str | None:
        partitions = self.site.cluster.partitions()
        if not partitions:
            return "no broker described the partitions"
        apart = [each for each in partitions if target in each.replicas and target not in each.isr]
        return f"node {target} was not in the ISR of {apart[0].topic}-{apart[0].partition}" if apart else None

    @property
    def _next(self) -> str:
        return self._node(self.targets[0]).next_version

    def _runs_next(self, target: int) -> bool:
        return self._node(target).version() == self._next

    def _node(self, target: int) -> UpgradableNode:
        node = self.site.cluster.nodes[target]
        if not isinstance(node, UpgradableNode):
            raise NodeError(f"expected node {target} to have a next version, found that it has none")
        return node


def _aim(site: Site, targets: tuple[int, ...], parameters: Parameters) -> Injection:
    return Upgrade(site, targets, parameters.get(FIRST, BROKERS))


UPGRADE = FaultKind(
    name="upgrade",
    needs=frozenset({"process", "upgrade"}),
    roles=("everyone",),
    draw=no_parameters,
    aim=_aim,
    lasts_ms=(1_000, 1_000),
    whole=True,
)
