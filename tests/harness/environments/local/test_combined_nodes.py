"""Harrow's own broker with nodes of both roles, set up by an environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.environments.base import System
from harness.environments.local.environment import LocalEnvironment
from harness.environments.machine.kernel.process_identity import wait_until
from harness.run.health import unhealthy_reason
from harness.spec.spec import Spec
from harness.store.journal import Journal
from harness.systems.own.harrow_broker import HarrowBroker
from tests.support.foreign_systems import OWN_AS_COMBINED, made

_READY_S = 60.0


@pytest.mark.slow
@pytest.mark.parametrize("own", [True, False], ids=["own broker", "from a definition"])
def test_the_brokers_elect_one_of_them_and_another_when_it_is_dead(own: bool, tmp_path: Path) -> None:
    definition = tmp_path / "own.toml"
    definition.write_text(OWN_AS_COMBINED)
    system: System = (
        HarrowBroker(Spec(seed=1, controllers=3, combined=True))
        if own
        else made(definition, controllers=3, combined=True)
    )
    environment = LocalEnvironment(
        tmp_path, system, 3, 3, "proxies", "page-cache", journal=Journal(tmp_path), combined=True
    )
    try:
        environment.set_up()
        environment.await_ready(_READY_S)
        cluster = environment.cluster
        assert {node_id: node.role for node_id, node in cluster.nodes.items()} == dict.fromkeys((1, 2, 3), "combined")
        assert wait_until(lambda: {voter.controller for voter in cluster.voters()} == {1, 2, 3}, _READY_S, 0.05)
        active = cluster.active_controller()
        assert active in (1, 2, 3)
        assert unhealthy_reason(cluster) == "no broker describes the partitions"  # there is no topic
        cluster.nodes[active].kill()
        assert wait_until(lambda: cluster.active_controller() in {1, 2, 3} - {active}, _READY_S, 0.05)
        cluster.nodes[active].start()
        assert wait_until(lambda: unhealthy_reason(cluster) == "no broker describes the partitions", _READY_S, 0.05)
    finally:
        environment.tear_down()
