from __future__ import annotations

import random

import pytest

from harness.environments.machine.environment import MachineEnvironment
from tests.harness.environments.conftest import MakeEnvironment, need
from tests.support.stand_in import order

_READY_S = 20.0
_CRASHES = 15


def test_what_was_not_synced_is_lost_and_what_was_synced_never_is(
    make_environment: MakeEnvironment, page_cache: str
) -> None:
    _crash_again_and_again(make_environment(page_cache=page_cache, brokers=1, controllers=0), page_cache)


@pytest.mark.docker
@pytest.mark.parametrize("disk", ["ext4", pytest.param("fuse", marks=pytest.mark.fuse)])
def test_nor_is_it_in_containers(make_environment: MakeEnvironment, disk: str) -> None:
    need(disk)
    environment = make_environment(environment="docker", page_cache=disk, brokers=1, controllers=0)
    _crash_again_and_again(environment, disk)


def _crash_again_and_again(environment: MachineEnvironment, page_cache: str) -> None:
    environment.set_up()
    environment.await_ready(_READY_S)
    plan, node = environment.plans[0], environment.cluster.nodes[1]
    draw = random.Random(7)
    synced: dict[str, int] = {}
    for _ in range(_CRASHES):
        for name in ("a", "b"):
            count = draw.randrange(1, 200_000)
            order(plan, do="append", file=name, bytes=count, sync=True)
            synced[name] = synced.get(name, 0) + count
        unsynced = draw.randrange(1, 100_000)
        order(plan, do="append", file="a", bytes=unsynced, sync=False)
        node.kill()
        loss = node.lose_page_cache()
        assert loss.mechanism == page_cache
        assert loss.files == {"a": (synced["a"] + unsynced, synced["a"])}
        assert loss.lost_bytes == unsynced
        node.start()
        node.await_ready(_READY_S)
    node.stop(_READY_S)
    environment.tear_down()
    for name, size in synced.items():
        assert (plan.data / name).read_bytes() == b"x" * size


def test_a_kill_alone_loses_nothing(make_environment: MakeEnvironment, page_cache: str) -> None:
    environment = make_environment(page_cache=page_cache, brokers=1, controllers=0)
    environment.set_up()
    environment.await_ready(_READY_S)
    plan, node = environment.plans[0], environment.cluster.nodes[1]
    order(plan, do="append", file="a", bytes=12_345, sync=False)
    node.kill()
    node.start()
    node.await_ready(_READY_S)
    node.stop(_READY_S)
    environment.tear_down()
    assert (plan.data / "a").stat().st_size == 12_345


def test_a_crash_with_everything_synced_changes_nothing(make_environment: MakeEnvironment, page_cache: str) -> None:
    environment = make_environment(page_cache=page_cache, brokers=1, controllers=0)
    environment.set_up()
    environment.await_ready(_READY_S)
    order(environment.plans[0], do="append", file="a", bytes=50_000, sync=True)
    environment.cluster.nodes[1].kill()
    loss = environment.cluster.nodes[1].lose_page_cache()
    assert (loss.lost_bytes, dict(loss.files)) == (0, {})


def test_a_crash_of_one_node_leaves_the_others_alone(make_environment: MakeEnvironment, page_cache: str) -> None:
    environment = make_environment(page_cache=page_cache, brokers=2, controllers=0)
    environment.set_up()
    environment.await_ready(_READY_S)
    one, two = environment.plans
    for plan in (one, two):
        order(plan, do="append", file="a", bytes=1000, sync=False)
    environment.cluster.nodes[1].kill()
    environment.cluster.nodes[1].lose_page_cache()
    environment.cluster.nodes[2].stop(_READY_S)
    environment.tear_down()
    assert (two.data / "a").stat().st_size == 1000
