"""Partitions that follow the cluster's shape: who hears whom when nobody hears everybody.

`majority-ring`            everybody hears a majority, and no two hear the same one
`bridge`                   two halves that cannot talk, and one node that reaches both
`brokers-from-controllers` brokers that serve clients and each other, but have lost the quorum
`clients-from-brokers`     brokers that are well among themselves, and that no client reaches
"""

from __future__ import annotations

from collections.abc import Sequence

from nemesis.capabilities.cluster import CLIENTS, Capability, Cluster, Link, is_controller
from nemesis.draws import Draws
from nemesis.faults.base import Injection, Kind, Parameters, Site, named, no_parameters
from nemesis.faults.partition import Partition, both_ways

_NEEDS: frozenset[Capability] = frozenset({"network"})
_ORDERS = 1 << 30


def majority_ring(ring: Sequence[int]) -> frozenset[Link]:
    """Cut links such that each node hears itself and the nodes next to it on the ring, a majority in all."""
    size = len(ring)
    heard = size // 2 + 1
    offsets = range(-((heard - 1) // 2), heard // 2 + 1)
    cut = set()
    for place, node in enumerate(ring):
        hears = {ring[(place + offset) % size] for offset in offsets}
        cut |= {(other, node) for other in ring if other not in hears}
    return frozenset(cut)


def _shuffled(cluster: Cluster, parameters: Parameters, spared: tuple[int, ...] = ()) -> list[int]:
    nodes = [node_id for node_id in sorted(cluster.nodes) if node_id not in spared]
    return Draws(int(parameters.get("order", "0")), "order").shuffled(nodes)


def _aim_ring(site: Site, targets: tuple[int, ...], parameters: Parameters) -> Injection:
    ring = _shuffled(site.cluster, parameters)
    told = " - ".join(map(str, [*ring, ring[0]]))
    return Partition(site, targets, majority_ring(ring), frozenset(), f"nodes on a ring hear their neighbours: {told}")


def _aim_bridge(site: Site, targets: tuple[int, ...], parameters: Parameters) -> Injection:
    rest = _shuffled(site.cluster, parameters, targets)
    left, right = rest[: len(rest) // 2], rest[len(rest) // 2 :]
    shape = f"{named(tuple(sorted(left)))} apart from {named(tuple(sorted(right)))}, {named(targets)} between them"
    return Partition(site, targets, both_ways(left, right), frozenset(), shape)


def _aim_controllers(site: Site, targets: tuple[int, ...], _parameters: Parameters) -> Injection:
    controllers = [node_id for node_id, node in site.cluster.nodes.items() if is_controller(node)]
    shape = f"{named(targets)} cut off from the controllers"
    return Partition(site, targets, both_ways(targets, controllers), frozenset(), shape)


def _aim_clients(site: Site, targets: tuple[int, ...], _parameters: Parameters) -> Injection:
    shape = f"{named(targets)} cut off from the clients"
    return Partition(site, targets, both_ways(targets, [CLIENTS]), frozenset(), shape)


def _draw_order(draws: Draws) -> dict[str, str]:
    return {"order": str(draws.below(_ORDERS))}


MAJORITY_RING = Kind(
    name="majority-ring",
    family="network",
    summary="everybody hears a majority of the nodes, and no two hear the same one",
    needs=_NEEDS,
    roles=("everyone",),
    draw=_draw_order,
    aim=_aim_ring,
)

BRIDGE = Kind(
    name="bridge",
    family="network",
    summary="two halves that cannot talk, and one broker that reaches both",
    needs=_NEEDS,
    roles=("leader", "broker"),
    draw=_draw_order,
    aim=_aim_bridge,
)

BROKERS_FROM_CONTROLLERS = Kind(
    name="brokers-from-controllers",
    family="network",
    summary="cut brokers off from all controllers, but not from each other, nor from clients",
    needs=_NEEDS,
    roles=("brokers", "leader", "minority"),
    draw=no_parameters,
    aim=_aim_controllers,
)

CLIENTS_FROM_BROKERS = Kind(
    name="clients-from-brokers",
    family="network",
    summary="cut the clients off from brokers that are well among themselves",
    needs=_NEEDS,
    roles=("brokers", "leader", "minority"),
    draw=no_parameters,
    aim=_aim_clients,
)
