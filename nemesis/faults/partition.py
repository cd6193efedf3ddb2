"""Partitions: nodes that run and cannot talk. Three shapes, one mechanism.

`isolate`  one node (or a few) against the others, both ways
`halves`   the cluster in two parts; the controllers are in one of them, or the active one is apart from the others; the
           clients reach one part or both
`one-way`  a node that hears nothing, or one that nobody hears
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from nemesis.capabilities.cluster import CLIENTS, Capability, Cluster, Endpoint, HasRole, Link, is_broker, is_controller
from nemesis.draws import Draws
from nemesis.faults.base import Healing, Injection, Kind, NotInEffect, Parameters, Site, named

PARTIES = ("all", "nodes", "brokers")
"""Whom a node is cut off from: everyone, all other nodes but not the clients, or the other brokers only."""

QUORUM_PARTIES = (*PARTIES, "controllers")
"""Where there are several controllers also: from the (other) controllers only."""

_OF_PARTY: Mapping[str, Callable[[HasRole], bool]] = {"brokers": is_broker, "controllers": is_controller}


@dataclass(frozen=True)
class Partition:
    """A set of links that are cut."""

    site: Site
    targets: tuple[int, ...]
    cut: frozenset[Link]
    kept: frozenset[Link]  # the opposite directions that must stay open
    shape: str  # a phrase for the evidence

    def inject(self) -> str:
        """Cut the links, and see with packets that they are cut and no others."""
        if not self.cut:
            raise NotInEffect(f"there is nobody to cut {named(self.targets)} off from")
        self.site.links.cut(self.cut)
        self.site.await_effect(
            lambda: not self._passing(self.cut),
            f"packets still pass on links of {named(self.targets)}",
        )
        kept = self.kept - self.site.links.held
        deaf = kept - self._passing(kept)
        if deaf:
            raise NotInEffect(f"more than was asked is cut: {_told(deaf)}")
        open_ways = f", {_count(kept)} the other way still open" if kept else ""
        return f"{self.shape}: no packet passes on {_count(self.cut)}{open_ways}"

    def undo(self) -> None:
        """Mend the links, but for those that another fault holds cut."""
        self.site.links.let_go(self.cut)

    def look(self) -> Healing:
        """See with packets that the links are mended, and whether the nodes serve."""
        mended = self.cut - self.site.links.held
        still_cut = mended - self._passing(mended)
        if still_cut:
            return Healing(False, f"no packet passed again on {_told(still_cut)}")
        passing = f"packets pass again on {_count(mended)}"
        alive = tuple(target for target in self.targets if self.site.cluster.nodes[target].is_alive())
        if not alive:
            return Healing(True, passing)
        serving = self.site.serving(alive)
        return serving._replace(told=f"{passing}, {serving.told}")

    def _passing(self, links: frozenset[Link]) -> frozenset[Link]:
        return self.site.cluster.network.reached(links)


def _count(links: frozenset[Link]) -> str:
    return f"{len(links)} link{'' if len(links) == 1 else 's'}"


def _told(links: Iterable[Link]) -> str:
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


def _from(party: str) -> str:
    told = {"all": "everyone", "nodes": "all other nodes", "brokers": "the other brokers"}
    return told.get(party, "the other controllers")


def _aim_isolate(site: Site, targets: tuple[int, ...], parameters: Parameters) -> Injection:
    party = parameters.get("from", "all")
    cut = both_ways(targets, others(site.cluster, targets, party))
    return Partition(site, targets, cut, frozenset(), f"{named(targets)} cut off from {_from(party)}")


def _aim_one_way(site: Site, targets: tuple[int, ...], parameters: Parameters) -> Injection:
    party = parameters.get("from", "all")
    outward = frozenset((target, other) for target in targets for other in others(site.cluster, targets, party))
    inward = frozenset((other, target) for target, other in outward)
    if parameters.get("direction", "in") == "in":
        return Partition(site, targets, inward, outward, f"{named(targets)} hears nothing of {_from(party)}")
    return Partition(site, targets, outward, inward, f"{named(targets)} is not heard by {_from(party)}")


def _aim_halves(site: Site, targets: tuple[int, ...], parameters: Parameters) -> Injection:
    side: set[Endpoint] = set(targets)
    rest: set[Endpoint] = {
        node_id for node_id, node in site.cluster.nodes.items() if is_broker(node) and node_id not in targets
    }
    controllers = {node_id for node_id, node in site.cluster.nodes.items() if node.role == "controller"}
    beside = _beside_targets(site.cluster, controllers, parameters.get("controller", "rest"))
    side |= beside
    rest |= controllers - beside
    clients = parameters.get("clients", "both")
    if clients != "both":
        (side if clients == "targets" else rest).add(CLIENTS)
    shape = f"{_part(side)} apart from {_part(rest)}"
    return Partition(site, targets, both_ways(side, rest), frozenset(), shape)


def _beside_targets(cluster: Cluster, controllers: set[int], where: str) -> set[int]:
    """Choose the controllers that share the part of the targets: all, none, or the active one."""
    if where == "active":
        return controllers & {cluster.active_controller()}
    return controllers if where == "targets" else set()


def _part(endpoints: Iterable[Endpoint]) -> str:
    return "{" + ", ".join("clients" if end == CLIENTS else str(end) for end in sorted(endpoints)) + "}"


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


_NEEDS: frozenset[Capability] = frozenset({"network"})

ISOLATE = Kind(
    name="isolate",
    family="network",
    summary="cut a node off, both ways, from everyone, the other nodes, the other brokers, or the controllers",
    needs=_NEEDS,
    roles=("leader", "leader", "leader", "in-sync-follower", "broker", "minority", "active-controller"),
    draw=_draw_isolate,
    aim=_aim_isolate,
    quorum_roles=("active-controller", "controller"),
    quorum_draw=_draw_isolate_in_quorum,
)

HALVES = Kind(
    name="halves",
    family="network",
    summary="split the cluster in two parts that cannot talk",
    needs=_NEEDS,
    roles=("leader", "minority"),
    draw=_draw_halves,
    aim=_aim_halves,
    quorum_draw=_draw_halves_in_quorum,
)

ONE_WAY = Kind(
    name="one-way",
    family="network",
    summary="cut one direction only: a node that hears nothing, or that nobody hears",
    needs=_NEEDS,
    roles=("leader", "in-sync-follower", "active-controller"),
    draw=_draw_one_way,
    aim=_aim_one_way,
    quorum_roles=("controller",),
    quorum_draw=_draw_one_way_in_quorum,
)
