"""Faults of the network, each on real nodes: their effect on packets, and its end."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from harness.environments.machine.environment import MachineEnvironment
from nemesis.capabilities.shapes import PLAIN, Shape
from nemesis.faults import KINDS
from nemesis.faults.base import Site
from nemesis.faults.partition import majority_ring
from tests.harness.environments.conftest import ENVIRONMENTS, cluster_in, need
from tests.support.real_faults import all_links, fire, real_site
from tests.support.stand_in import order, reply_is

pytestmark = pytest.mark.namespaces

NODES = (1, 2, 3, 100)


@pytest.fixture(scope="module", params=ENVIRONMENTS)
def environment(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MachineEnvironment]:
    need("namespaces")
    need("shaping")
    directory = tmp_path_factory.mktemp("network")
    with cluster_in(request.param, directory, brokers=3, network="namespaces", page_cache="page-cache") as made:
        yield made


@pytest.fixture
def site(environment: MachineEnvironment) -> Iterator[Site]:
    made = real_site(environment)
    yield made
    made.links.clear()


def _cut(environment: MachineEnvironment) -> set[tuple[int, int]]:
    links = all_links(environment)
    return set(links - environment.cluster.network.reached(links))


def test_on_a_majority_ring_each_node_hears_a_majority_of_its_own(environment: MachineEnvironment, site: Site) -> None:
    with fire(site, "majority-ring", NODES, {"order": "5"}):
        cut = _cut(environment)
    heard = {node: {node} | {other for other in NODES if other != node and (other, node) not in cut} for node in NODES}
    assert all(len(view) == 3 for view in heard.values())
    assert len({frozenset(view) for view in heard.values()}) == 4
    assert not any(0 in link for link in cut)
    assert not _cut(environment)


@pytest.mark.parametrize("size", [3, 4, 5, 6, 7])
def test_a_majority_ring_of_any_size_gives_each_node_another_majority(size: int) -> None:
    ring = range(1, size + 1)
    cut = majority_ring(ring)
    heard = {frozenset(other for other in ring if (other, node) not in cut) for node in ring}
    assert len(heard) == size
    assert {len(view) for view in heard} == {size // 2 + 1}


def test_a_bridge_reaches_both_halves(environment: MachineEnvironment, site: Site) -> None:
    with fire(site, "bridge", (2,), {"order": "1"}):
        cut = _cut(environment)
    assert cut
    assert not any(2 in link or 0 in link for link in cut)
    assert all((b, a) in cut for a, b in cut)
    assert not _cut(environment)


def test_brokers_lose_the_controllers_and_nothing_else(environment: MachineEnvironment, site: Site) -> None:
    with fire(site, "brokers-from-controllers", (1, 2, 3)):
        assert _cut(environment) == {(a, 100) for a in (1, 2, 3)} | {(100, a) for a in (1, 2, 3)}
    assert not _cut(environment)


def test_only_clients_lose_the_brokers(environment: MachineEnvironment, site: Site) -> None:
    with fire(site, "clients-from-brokers", (1, 3)):
        assert _cut(environment) == {(0, 1), (1, 0), (0, 3), (3, 0)}
    assert not _cut(environment)


def test_flapping_links_are_cut_and_whole_in_turns(environment: MachineEnvironment, site: Site) -> None:
    seen = []
    with fire(site, "flapping", (3,), {"period-ms": "40"}) as fault:
        deadline = time.monotonic() + 10
        while len(seen) < 4 and time.monotonic() < deadline:
            fault.tick()
            reaches = environment.cluster.network.reaches(1, 3)
            if not seen or seen[-1] != reaches:
                seen.append(reaches)
    assert seen[:4] in ([False, True, False, True], [True, False, True, False])
    assert not _cut(environment)


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("slow-network", {"delay-ms": "60"}),
        ("packet-loss", {"percent": "30"}),
        ("packet-duplication", {"percent": "50"}),
        ("packet-reordering", {"percent": "25"}),
        ("thin-network", {"kbit": "400"}),
    ],
)
def test_a_shaped_link_shows_it_and_no_other_does(
    environment: MachineEnvironment, site: Site, kind: str, parameters: dict[str, str]
) -> None:
    network = environment.cluster.network
    with fire(site, kind, (2,), {"from": "nodes", **parameters}) as fault:
        assert "packets arrived" in fault.evidence
        assert set(network.shaped()) == {(2, a) for a in (1, 3, 100)} | {(a, 2) for a in (1, 3, 100)}
        spared = network.sample([(0, 2), (2, 0), (1, 3)], 20, 200, 1.0)
        assert (spared.arrived, spared.copies, spared.overtaken) == (60, 60, 0)
        assert spared.median_ms < 30
    assert not network.shaped()


def test_a_reset_link_ends_every_connection_that_talks(environment: MachineEnvironment, site: Site) -> None:
    one, two = environment.plans[0], environment.plans[1]
    order(one, do="dial", to=environment.addresses.reach(1, 2, "BROKER"), **{"as": "doomed"})
    order(one, do="say", text="before", **{"as": "doomed"})
    assert reply_is(one, ["before"], do="echoes", **{"as": "doomed"})
    fault = KINDS["connection-resets"].aim(site, (2,), {"from": "nodes"})
    environment.cluster.network.shape(frozenset({(1, 2), (2, 1)}), Shape(reset=True))
    order(one, do="say", text="never heard", **{"as": "doomed"})
    assert reply_is(one, True, do="broken", **{"as": "doomed"})
    assert environment.cluster.network.shaping_counts()["reset"] >= 1
    with pytest.raises(OSError, match="Connection refused"):
        _dial(environment)
    environment.cluster.network.shape(frozenset({(1, 2), (2, 1)}), PLAIN)
    assert fault.check_healed().healed
    _dial(environment)
    assert "never heard" not in order(two, do="heard")


def _dial(environment: MachineEnvironment) -> None:
    reply = order(environment.plans[0], do="try-to-dial", to=environment.addresses.reach(1, 2, "BROKER"))
    if reply != "connected":
        raise OSError(reply)


def test_what_two_faults_do_to_a_link_adds_up_until_both_are_over(environment: MachineEnvironment, site: Site) -> None:
    network = environment.cluster.network
    with fire(site, "slow-network", (2,), {"from": "nodes", "delay-ms": "30", "jitter-percent": "0"}):
        with fire(site, "packet-loss", (3,), {"from": "nodes", "percent": "50"}):
            shape = network.shaped()[2, 3]
            assert (shape.delay_ms, shape.loss_percent) == (30, 50)
        assert network.shaped()[2, 3] == Shape(delay_ms=30)
    assert not network.shaped()


def test_a_partition_of_everything_takes_less_than_fifty_milliseconds(environment: MachineEnvironment) -> None:
    network, links = environment.cluster.network, all_links(environment)
    took = []
    for _ in range(5):
        began = time.monotonic()
        network.block(links)
        took.append(time.monotonic() - began)
        network.unblock(links)
    assert min(took) < 0.05


def test_every_kind_of_network_fault_is_shown_here() -> None:
    tested_in_other_files = {"isolate", "halves", "one-way"}  # tests of networks, whose cuts they are
    here = {name for name, kind in KINDS.items() if kind.needs & {"network", "network-shaping"}} - tested_in_other_files
    assert here == {
        "majority-ring",
        "bridge",
        "brokers-from-controllers",
        "clients-from-brokers",
        "flapping",
        "slow-network",
        "packet-loss",
        "packet-duplication",
        "packet-reordering",
        "thin-network",
        "connection-resets",
    }
