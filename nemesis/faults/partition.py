"""Network partitions: nodes that run but cannot reach each other.

`isolate`                   one node (or a few) against the others, both ways
`halves`                    the cluster in two parts; the controllers are in one of them, or the active one is separate
                            from the others; the clients reach one part or both
`one-way`                   a node that receives nothing, or one that no other node receives from
`majority-ring`             each node receives from a majority, and no two from the same one
`bridge`                    two halves that cannot reach each other, and one node that reaches both
`brokers-from-controllers`  brokers that serve clients and each other, but have lost the quorum
`clients-from-brokers`      brokers that reach each other, and that no client reaches
`flapping`                  links that are cut and mended in turns, shorter than clients' timeouts or about as long
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from nemesis.capabilities.cluster import (
    CLIENTS,
    Capability,
    Cluster,
    CutsOffNodes,
    Endpoint,
    HasRole,
    Link,
    is_broker,
    is_controller,
)
from nemesis.draws import Draws
from nemesis.faults.base import FaultKind, Healing, Injection, NotInEffect, Parameters, Site, named, no_parameters

PARTIES = ("all", "nodes", "brokers")
"""What a node is cut off from: all endpoints, all other nodes but not the clients, or the other brokers only."""

QUORUM_PARTIES = (*PARTIES, "controllers")
"""With several controllers also: the (other) controllers only."""

_NEEDS: frozenset[Capability] = frozenset({"network"})
_ORDERS = 1 << 30
_NS_PER_MS = 1_000_000
_OF_PARTY: Mapping[str, Callable[[HasRole], bool]] = {"brokers": is_broker, "controllers": is_controller}


@dataclass(frozen=True)
class NetworkPartition:
    """A set of links that are cut."""

    site: Site
    targets: tuple[int, ...]
    cut: frozenset[Link]
    kept: frozenset[Link]  # the opposite directions that must stay open
    shape: str  # a phrase for the evidence

    def inject(self) -> str:
        """Cut the links, and check with packets that these links and no others are cut."""
        if not self.cut:
            raise NotInEffect(f"there is nothing to cut {named(self.targets)} off from")
        self.site.links.cut(self.cut)
        self.site.await_effect(
            lambda: not self._passing(self.cut),
            f"packets still pass on links of {named(self.targets)}",
        )
        kept = self.kept - self.site.links.held
        closed = kept - self._passing(kept)
        if closed:
            raise NotInEffect(f"more links are cut than intended: {_format(closed)}")
        still_open = f", {_count(kept)} the other way still open" if kept else ""
        return f"{self.shape}: no packet passes on {_count(self.cut)}{still_open}"

    def undo(self) -> None:
        """Mend the links, but for those that another fault holds cut."""
        self.site.links.let_go(self.cut)

    def check_healed(self) -> Healing:
        """Check with packets that the links are mended, and that the living targets serve."""
        mended = self.cut - self.site.links.held
        still_cut = mended - self._passing(mended)
        if still_cut:
            return Healing(False, f"no packet passed again on {_format(still_cut)}")
        passing = f"packets pass again on {_count(mended)}"
        alive = tuple(target for target in self.targets if self.site.cluster.nodes[target].is_alive())
        if not alive:
            return Healing(True, passing)
        serving = self.site.serving(alive)
        return serving._replace(evidence=f"{passing}, {serving.evidence}")

    def _passing(self, links: frozenset[Link]) -> frozenset[Link]:
        return self.site.cluster.network.reached(links)


@dataclass
class Flapping:
    """A partition that is cut and mended in turns."""

    partition: NetworkPartition
    period_ms: int
    cuts: int = 0
    _is_cut: bool = False
    _changed_ns: int = 0

    def inject(self) -> str:
        """Cut the links for the first time, and check that they are cut."""
        evidence = self.partition.inject()
        self.cuts, self._is_cut = 1, True
        self._changed_ns = self._now_ns()
        return f"{evidence}; in turns of {self.period_ms} ms"

    def tick(self) -> None:
        """Mend links that were cut for a period; cut links that were mended for a period."""
        if self._now_ns() - self._changed_ns < self.period_ms * _NS_PER_MS:
            return
        self._changed_ns = self._now_ns()
        if self._is_cut:
            self._is_cut = False
            self.partition.undo()
        else:
            self._is_cut = True
            self.cuts += 1
            self.partition.site.links.cut(self.partition.cut)

    def undo(self) -> None:
        """Mend the links for good."""
        if self._is_cut or not self.cuts:  # not even the first cut may have taken effect
            self._is_cut = False
            self.partition.undo()

    def check_healed(self) -> Healing:
        """Check with packets that the links are mended, and that the living targets serve."""
        healing = self.partition.check_healed()
        return healing._replace(evidence=f"cut {self.cuts} times; {healing.evidence}")

    def _now_ns(self) -> int:
        return self.partition.site.clock.now_ns()


def _count(links: frozenset[Link]) -> str:
    return f"{len(links)} link{'' if len(links) == 1 else 's'}"


def _format(links: Iterable[Link]) -> str:
    return ", ".join(f"{source}→{target}" for source, target in sorted(links))


def both_ways(left: Iterable[Endpoint], right: Iterable[Endpoint]) -> frozenset[Link]:
    """All links between two groups."""
    there = {(source, target) for source in left for target in right if source != target}
    return frozenset(there | {(target, source) for source, target in there})


def others(cluster: Cluster, targets: tuple[int, ...], party: str) -> frozenset[Endpoint]:
    """List the endpoints that `targets` are cut off from."""
    nodes = {
        node_id
        for node_id, node in cluster.nodes.items()
        if node_id not in targets and (party not in _OF_PARTY or _OF_PARTY[party](node))
    }
    return frozenset(nodes | {CLIENTS} if party == "all" else nodes)


def _party_name(party: str) -> str:
    names = {"all": "everyone", "nodes": "all other nodes", "brokers": "the other brokers"}
    return names.get(party, "the other controllers")


@dataclass(frozen=True)
class WholeNodes:
    """Nodes that are cut off from all others and the clients by a network that knows no single links."""

    site: Site
    targets: tuple[int, ...]
    network: CutsOffNodes

    def inject(self) -> str:
        """Cut the nodes off one after the other; the network verifies each."""
        self.site.require_alive(self.targets)
        for target in self.targets:
            self.network.cut_off(target)
        return f"{named(self.targets)} cut off: no answer, or unknown to the other brokers"

    def undo(self) -> None:
        """Connect them again."""
        for target in self.targets:
            self.network.rejoin(target)

    def check_healed(self) -> Healing:
        """Check that the living targets serve."""
        return self.site.serving(tuple(each for each in self.targets if self.site.cluster.nodes[each].is_alive()))


def _aim_isolate(site: Site, targets: tuple[int, ...], parameters: Parameters) -> Injection:
    if isinstance(site.cluster.network, CutsOffNodes):
        return WholeNodes(site, targets, site.cluster.network)
    party = parameters.get("from", "all")
    cut = both_ways(targets, others(site.cluster, targets, party))
    return NetworkPartition(site, targets, cut, frozenset(), f"{named(targets)} cut off from {_party_name(party)}")


def _aim_one_way(site: Site, targets: tuple[int, ...], parameters: Parameters) -> Injection:
    party = parameters.get("from", "all")
    outward = frozenset((target, other) for target in targets for other in others(site.cluster, targets, party))
    inward = frozenset((other, target) for target, other in outward)
    if parameters.get("direction", "in") == "in":
        return NetworkPartition(
            site, targets, inward, outward, f"{named(targets)} receives nothing from {_party_name(party)}"
        )
    return NetworkPartition(
        site, targets, outward, inward, f"nothing from {named(targets)} reaches {_party_name(party)}"
    )


def _aim_halves(site: Site, targets: tuple[int, ...], parameters: Parameters) -> Injection:
    side: set[Endpoint] = set(targets)
    rest: set[Endpoint] = {
        node_id for node_id, node in site.cluster.nodes.items() if is_broker(node) and node_id not in targets
    }
    controllers = {node_id for node_id, node in site.cluster.nodes.items() if node.role == "controller"}
    with_targets = _controllers_with_targets(site.cluster, controllers, parameters.get("controller", "rest"))
    side |= with_targets
    rest |= controllers - with_targets
    clients = parameters.get("clients", "both")
    if clients != "both":
        (side if clients == "targets" else rest).add(CLIENTS)
    shape = f"{_part(side)} apart from {_part(rest)}"
    return NetworkPartition(site, targets, both_ways(side, rest), frozenset(), shape)


def _controllers_with_targets(cluster: Cluster, controllers: set[int], where: str) -> set[int]:
    """Choose the controllers that are in the part of the targets: all, none, or the active one."""
    if where == "active":
        return controllers & {cluster.active_controller()}
    return controllers if where == "targets" else set()


def _part(endpoints: Iterable[Endpoint]) -> str:
    return "{" + ", ".join("clients" if end == CLIENTS else str(end) for end in sorted(endpoints)) + "}"


def majority_ring(ring: Sequence[int]) -> frozenset[Link]:
    """Cut links so that each node receives from itself and its neighbours on the ring only, a majority in all."""
    size = len(ring)
    majority = size // 2 + 1
    offsets = range(-((majority - 1) // 2), majority // 2 + 1)
    cut = set()
    for position, node in enumerate(ring):
        sources = {ring[(position + offset) % size] for offset in offsets}
        cut |= {(other, node) for other in ring if other not in sources}
    return frozenset(cut)


def _shuffled(cluster: Cluster, parameters: Parameters, excluded: tuple[int, ...] = ()) -> list[int]:
    nodes = [node_id for node_id in sorted(cluster.nodes) if node_id not in excluded]
    return Draws(int(parameters.get("order", "0")), "order").shuffled(nodes)


def _aim_ring(site: Site, targets: tuple[int, ...], parameters: Parameters) -> Injection:
    ring = _shuffled(site.cluster, parameters)
    shape = f"nodes on a ring receive from their neighbours: {' - '.join(map(str, [*ring, ring[0]]))}"
    return NetworkPartition(site, targets, majority_ring(ring), frozenset(), shape)


def _aim_bridge(site: Site, targets: tuple[int, ...], parameters: Parameters) -> Injection:
    rest = _shuffled(site.cluster, parameters, targets)
    left, right = rest[: len(rest) // 2], rest[len(rest) // 2 :]
    shape = f"{named(tuple(sorted(left)))} apart from {named(tuple(sorted(right)))}, {named(targets)} between them"
    return NetworkPartition(site, targets, both_ways(left, right), frozenset(), shape)


def _aim_controllers(site: Site, targets: tuple[int, ...], _parameters: Parameters) -> Injection:
    controllers = [node_id for node_id, node in site.cluster.nodes.items() if is_controller(node)]
    shape = f"{named(targets)} cut off from the controllers"
    return NetworkPartition(site, targets, both_ways(targets, controllers), frozenset(), shape)


def _aim_clients(site: Site, targets: tuple[int, ...], _parameters: Parameters) -> Injection:
    shape = f"{named(targets)} cut off from the clients"
    return NetworkPartition(site, targets, both_ways(targets, [CLIENTS]), frozenset(), shape)


def _aim_flapping(site: Site, targets: tuple[int, ...], parameters: Parameters) -> Injection:
    cut = both_ways(targets, others(site.cluster, targets, parameters.get("from", "all")))
    shape = f"{named(targets)} cut off from {parameters.get('from', 'all')}"
    return Flapping(NetworkPartition(site, targets, cut, frozenset(), shape), int(parameters.get("period-ms", "300")))


def _draw_isolate(draws: Draws) -> dict[str, str]:
    return {"from": draws.choice((*PARTIES, "nodes"))}  # a deposed leader with clients is the richest case


def _draw_one_way(draws: Draws) -> dict[str, str]:
    return {"direction": draws.choice(("in", "out")), "from": draws.choice(PARTIES)}


def _draw_halves(draws: Draws) -> dict[str, str]:
    return {"controller": draws.choice(("targets", "rest")), "clients": _draw_clients(draws)}


def _draw_clients(draws: Draws) -> str:
    return draws.choice(("both", "targets", "rest"))


def _draw_isolate_in_quorum(draws: Draws) -> dict[str, str]:
    return {"from": draws.choice((*QUORUM_PARTIES, "nodes"))}


def _draw_one_way_in_quorum(draws: Draws) -> dict[str, str]:
    return {"direction": draws.choice(("in", "out")), "from": draws.choice(QUORUM_PARTIES)}


def _draw_halves_in_quorum(draws: Draws) -> dict[str, str]:
    return {"controller": draws.choice(("targets", "rest", "active")), "clients": _draw_clients(draws)}


def _draw_order(draws: Draws) -> dict[str, str]:
    return {"order": str(draws.below(_ORDERS))}


def _draw_flapping(draws: Draws) -> dict[str, str]:
    return {"from": draws.choice(PARTIES), "period-ms": str(draws.choice((150, 400, 1_000, 2_000)))}


ISOLATE = FaultKind(
    name="isolate",
    needs=_NEEDS,
    roles=("leader", "leader", "leader", "in-sync-follower", "broker", "minority", "active-controller"),
    draw=_draw_isolate,
    aim=_aim_isolate,
    quorum_roles=("active-controller", "controller"),
    quorum_draw=_draw_isolate_in_quorum,
)

HALVES = FaultKind(
    name="halves",
    needs=_NEEDS,
    roles=("leader", "minority"),
    draw=_draw_halves,
    aim=_aim_halves,
    quorum_draw=_draw_halves_in_quorum,
)

ONE_WAY = FaultKind(
    name="one-way",
    needs=_NEEDS,
    roles=("leader", "in-sync-follower", "active-controller"),
    draw=_draw_one_way,
    aim=_aim_one_way,
    quorum_roles=("controller",),
    quorum_draw=_draw_one_way_in_quorum,
)

MAJORITY_RING = FaultKind(
    name="majority-ring",
    needs=_NEEDS,
    roles=("everyone",),
    draw=_draw_order,
    aim=_aim_ring,
)

BRIDGE = FaultKind(
    name="bridge",
    needs=_NEEDS,
    roles=("leader", "broker"),
    draw=_draw_order,
    aim=_aim_bridge,
)

BROKERS_FROM_CONTROLLERS = FaultKind(
    name="brokers-from-controllers",
    needs=_NEEDS,
    roles=("brokers", "leader", "minority"),
    draw=no_parameters,
    aim=_aim_controllers,
)

CLIENTS_FROM_BROKERS = FaultKind(
    name="clients-from-brokers",
    needs=_NEEDS,
    roles=("brokers", "leader", "minority"),
    draw=no_parameters,
    aim=_aim_clients,
)

FLAPPING = FaultKind(
    name="flapping",
    needs=_NEEDS,
    roles=("leader", "in-sync-follower", "minority", "controller"),
    draw=_draw_flapping,
    aim=_aim_flapping,
    lasts_ms=(4_000, 8_000),
)
