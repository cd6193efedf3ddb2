"""Faults of wall clocks on real nodes: the node reads a wrong time, and its timers keep their pace."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from harness.environments.machine.environment import MachineEnvironment
from nemesis.capabilities.cluster import NodeError
from nemesis.faults import KINDS
from nemesis.faults.base import Site
from tests.harness.environments.conftest import ENVIRONMENTS, MakeEnvironment, cluster_in, need
from tests.support.real_faults import fire, real_site
from tests.support.stand_in import order

_READY_S = 20.0


@pytest.fixture(scope="module", params=ENVIRONMENTS)
def environment(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MachineEnvironment]:
    need("clock")
    directory = tmp_path_factory.mktemp("clocks")
    choices = {"network": "proxies", "page_cache": "page-cache", "needs": frozenset({"clock"})}
    with cluster_in(request.param, directory, brokers=2, controllers=0, **choices) as made:
        yield made


@pytest.fixture
def site(environment: MachineEnvironment) -> Site:
    return real_site(environment)


def error_s(environment: MachineEnvironment, node: int = 1) -> float:
    wall, monotonic = order(environment.plans[node - 1], do="time")
    return float(wall - monotonic - (time.time() - time.monotonic()))


@pytest.mark.parametrize("offset_s", [-31_536_000, -60, 0.5, 3600])
def test_only_the_faulted_node_reads_a_wrong_time(environment: MachineEnvironment, site: Site, offset_s: float) -> None:
    with fire(site, "clock-jump", (1,), {"offset-ms": str(offset_s * 1000)}) as fault:
        assert error_s(environment) == pytest.approx(offset_s, abs=0.1)
        assert error_s(environment, 2) == pytest.approx(0, abs=0.1)
        assert "is off by" in fault.evidence
    assert error_s(environment) == pytest.approx(0, abs=0.1)


def test_a_drifting_clock_gains_and_the_monotonic_one_does_not(environment: MachineEnvironment, site: Site) -> None:
    with fire(site, "clock-drift", (1,), {"percent": "100"}):
        first, began = order(environment.plans[0], do="time")
        time.sleep(0.3)
        later, ended = order(environment.plans[0], do="time")
        assert (later - first) / (ended - began) == pytest.approx(2.0, abs=0.1)
    assert error_s(environment) == pytest.approx(0, abs=0.1)


def test_a_strobing_clock_jumps_to_and_fro(environment: MachineEnvironment, site: Site) -> None:
    seen = set()
    with fire(site, "clock-strobe", (1,), {"offset-ms": "5000", "period-ms": "20"}) as fault:
        deadline = time.monotonic() + 10
        while len(seen) < 2 and time.monotonic() < deadline:
            fault.tick()
            seen.add(round(error_s(environment)))
    assert seen == {0, 5}
    assert error_s(environment) == pytest.approx(0, abs=0.1)


def test_a_clock_stays_wrong_over_a_restart(environment: MachineEnvironment, site: Site) -> None:
    node = environment.cluster.nodes[1]
    with fire(site, "clock-jump", (1,), {"offset-ms": "60000"}):
        node.kill()
        node.start()
        node.await_ready(_READY_S)
        assert error_s(environment) == pytest.approx(60, abs=0.1)
        assert node.clock.governs(node.pid or 0)


def test_without_need_a_node_has_no_clock_of_its_own(make_environment: MakeEnvironment) -> None:
    environment = make_environment(brokers=1, controllers=0)
    environment.set_up()
    with pytest.raises(NodeError, match="expected node 1 to have a clock of its own"):
        _ = environment.cluster.nodes[1].clock


def test_every_kind_of_clock_fault_is_shown_here() -> None:
    assert {name for name, kind in KINDS.items() if "clock" in kind.needs} == {
        "clock-jump",
        "clock-strobe",
        "clock-drift",
    }
