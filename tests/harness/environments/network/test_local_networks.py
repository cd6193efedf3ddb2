from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from harness.environments.local.environment import LocalEnvironment
from nemesis.capabilities.cluster import Link
from tests.harness.environments.conftest import MakeEnvironment
from tests.support.stand_in import order, reply_is

_READY_S = 20.0

Cut = Callable[[frozenset[Link]], frozenset[Link]]


def _isolate(links: frozenset[Link]) -> frozenset[Link]:
    return frozenset(link for link in links if 2 in link)


def _halves(links: frozenset[Link]) -> frozenset[Link]:
    return frozenset((a, b) for a, b in links if (a in (0, 1)) != (b in (0, 1)))


def _one_way(links: frozenset[Link]) -> frozenset[Link]:
    return frozenset((a, b) for a, b in links if a == 3)


def _single_link(links: frozenset[Link]) -> frozenset[Link]:
    return links & {(1, 2)}


def _clients_only(links: frozenset[Link]) -> frozenset[Link]:
    return frozenset(link for link in links if 0 in link)


def _all_links(environment: LocalEnvironment) -> frozenset[Link]:
    endpoints = environment.cluster.network.endpoints
    return frozenset((a, b) for a in endpoints for b in endpoints if a != b)


def test_cuts_take_exactly_the_links_they_name(make_environment: MakeEnvironment, network: str) -> None:
    environment = make_environment(network=network)
    environment.set_up()
    links = _all_links(environment)
    assert len(links) == 20
    wires = environment.cluster.network
    assert wires.reached(links) == links
    for cut in (_isolate, _halves, _one_way, _single_link, _clients_only):
        blocked = cut(links)
        wires.block(blocked)
        assert wires.blocked() == blocked
        assert wires.reached(links) == links - blocked, cut.__name__
        wires.unblock(blocked)
        assert wires.reached(links) == links, cut.__name__


def test_cuts_add_up_and_mend_apart(make_environment: MakeEnvironment, network: str) -> None:
    environment = make_environment(network=network)
    environment.set_up()
    wires = environment.cluster.network
    wires.block(frozenset({(1, 2), (2, 1)}))
    wires.block(frozenset({(2, 1), (3, 1)}))
    wires.unblock(frozenset({(1, 2), (100, 1)}))
    assert wires.blocked() == {(2, 1), (3, 1)}
    assert wires.reaches(1, 2)
    assert not wires.reaches(2, 1)
    assert not wires.reaches(3, 1)


def test_a_link_that_is_not_there_cannot_be_cut(make_environment: MakeEnvironment, network: str) -> None:
    environment = make_environment(network=network, brokers=1)
    environment.set_up()
    for link in ((1, 7), (1, 1)):
        with pytest.raises(ValueError, match="expected a link between two of the endpoints"):
            environment.cluster.network.block(frozenset({link}))
    assert environment.cluster.network.blocked() == frozenset()


def test_an_established_connection_is_cut_in_silence_and_resumes(
    make_environment: MakeEnvironment, network: str
) -> None:
    environment = make_environment(network=network)
    environment.set_up()
    environment.await_ready(_READY_S)
    one, two = environment.plans[0], environment.plans[1]
    wires = environment.cluster.network
    order(one, do="dial", to=environment.addresses.reach(1, 2, "BROKER"), **{"as": "c"})
    order(one, do="say", text="before", **{"as": "c"})
    assert reply_is(one, ["before"], do="echoes", **{"as": "c"})

    wires.block(frozenset({(1, 2)}))
    order(one, do="say", text="held on its way there", **{"as": "c"})
    assert not reply_is(two, ["before", "held on its way there"], 0.5, do="heard")
    wires.unblock(frozenset({(1, 2)}))
    assert reply_is(two, ["before", "held on its way there"], do="heard")
    assert reply_is(one, ["before", "held on its way there"], do="echoes", **{"as": "c"})

    wires.block(frozenset({(2, 1)}))
    order(one, do="say", text="heard, its echo held", **{"as": "c"})
    assert reply_is(two, ["before", "held on its way there", "heard, its echo held"], do="heard")
    assert not reply_is(
        one, ["before", "held on its way there", "heard, its echo held"], 0.5, do="echoes", **{"as": "c"}
    )
    wires.unblock(frozenset({(2, 1)}))
    assert reply_is(one, ["before", "held on its way there", "heard, its echo held"], do="echoes", **{"as": "c"})


def test_data_flows_on_in_the_direction_that_is_not_cut(make_environment: MakeEnvironment, network: str) -> None:
    environment = make_environment(network=network)
    environment.set_up()
    environment.await_ready(_READY_S)
    one, two = environment.plans[0], environment.plans[1]
    order(one, do="dial", to=environment.addresses.reach(1, 2, "BROKER"), **{"as": "c"})
    order(one, do="say", text="before", **{"as": "c"})
    assert reply_is(one, ["before"], do="echoes", **{"as": "c"})
    environment.cluster.network.block(frozenset({(2, 1)}))
    order(one, do="say", text="one way", **{"as": "c"})
    assert reply_is(two, ["before", "one way"], do="heard")


def test_a_new_connection_over_a_cut_link_gets_no_answer(make_environment: MakeEnvironment, network: str) -> None:
    environment = make_environment(network=network)
    environment.set_up()
    environment.await_ready(_READY_S)
    two = environment.plans[1]
    environment.cluster.network.block(frozenset({(2, 0)}))
    host, port = environment.addresses.reach(0, 2, "CLIENT")
    script = (
        "import socket, sys\n"
        "try:\n"
        f"    s = socket.create_connection(({host!r}, {port}), timeout=0.5); s.sendall(b'hello\\n'); s.recv(1)\n"
        "except TimeoutError:\n"
        "    print('no answer', flush=True)\n"
    )
    client = environment.spawn_client(["python3", "-c", script], two.directory / "client.log")
    assert client.stdout.readline() == b"no answer\n"
    assert order(two, do="heard") == []


@pytest.mark.slow
def test_a_connection_is_back_soon_after_a_long_cut(make_environment: MakeEnvironment, network: str) -> None:
    environment = make_environment(network=network)
    environment.set_up()
    environment.await_ready(_READY_S)
    one = environment.plans[0]
    wires = environment.cluster.network
    order(one, do="dial", to=environment.addresses.reach(1, 2, "BROKER"), **{"as": "c"})
    wires.block(frozenset({(1, 2), (2, 1)}))
    order(one, do="say", text="patience", **{"as": "c"})
    assert not reply_is(one, ["patience"], 3.0, do="echoes", **{"as": "c"})
    wires.unblock(wires.blocked())
    mended = time.monotonic()
    assert reply_is(one, ["patience"], 10.0, do="echoes", **{"as": "c"})
    assert time.monotonic() - mended < 5.0


def test_two_runs_side_by_side_do_not_meet(make_environment: MakeEnvironment, network: str) -> None:
    first, second = make_environment(network=network, brokers=2), make_environment(network=network, brokers=2)
    first.set_up()
    second.set_up()
    first.await_ready(_READY_S)
    second.await_ready(_READY_S)
    first.cluster.network.block(_all_links(first))
    assert first.cluster.network.reached(_all_links(first)) == frozenset()
    assert second.cluster.network.reached(_all_links(second)) == _all_links(second)
