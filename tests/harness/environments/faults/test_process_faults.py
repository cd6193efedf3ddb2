"""Faults of processes, each on real nodes: each takes effect, lasts, and heals."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from harness.environments.base import NodePlan
from harness.environments.docker.environment import DockerEnvironment
from harness.environments.machine.environment import MachineEnvironment
from harness.environments.machine.kernel import process_identity
from nemesis.faults import KINDS
from nemesis.faults.base import Site
from tests.harness.environments.conftest import ENVIRONMENTS, cluster_in
from tests.support.real_faults import fire, real_site
from tests.support.stand_in import order

_READY_S = 20.0


@pytest.fixture(scope="module", params=ENVIRONMENTS)
def environment(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MachineEnvironment]:
    directory = tmp_path_factory.mktemp("processes")
    with cluster_in(request.param, directory, brokers=3, network="proxies", page_cache="page-cache") as made:
        yield made


@pytest.fixture
def site(environment: MachineEnvironment) -> Site:
    return real_site(environment)


def _pids(environment: MachineEnvironment) -> dict[int, int | None]:
    return {number: node.pid for number, node in environment.cluster.nodes.items()}


def test_a_power_cut_kills_all_nodes_at_once(environment: MachineEnvironment, site: Site) -> None:
    before = _pids(environment)
    with fire(site, "power-cut", (1, 2, 3, 100)) as fault:
        assert "killed and reaped" in fault.evidence
        assert all(process_identity.states(pid or 0) == set() for pid in before.values())
    assert set(before.values()).isdisjoint(_pids(environment).values())


def test_a_crash_loop_goes_through_several_processes(environment: MachineEnvironment, site: Site) -> None:
    seen = set()
    with fire(site, "crash-loop", (1,), {"up-ms": "100", "down-ms": "0"}) as fault:
        deadline = time.monotonic() + 10
        while len(seen) < 3 and time.monotonic() < deadline:
            fault.tick()
            seen.add(environment.cluster.nodes[1].pid)
            time.sleep(0.01)
    assert len(seen) >= 3
    assert "node 1 died" in fault.healing


def test_a_rolling_restart_leaves_only_new_processes(environment: MachineEnvironment, site: Site) -> None:
    before = _pids(environment)
    with fire(site, "rolling-restart", (1, 2, 3)) as fault:
        assert process_identity.wait_until(
            lambda: fault.tick() or environment.cluster.nodes[3].pid != before[3], _READY_S, 0.02
        )
    after = _pids(environment)
    assert all(before[number] != after[number] for number in (1, 2, 3))
    assert "restarted nodes 1, 2 and 3" in fault.healing


def test_a_starved_node_may_hardly_run_and_then_always(environment: MachineEnvironment, site: Site) -> None:
    node = environment.cluster.nodes[2]
    with fire(site, "cpu-starvation", (2,), {"percent": "5"}) as fault:
        assert "of the time, 5 % wanted" in fault.evidence
        assert node.running_percent(0.5) < 40
    assert node.running_percent(0.2) == 100


def test_a_starved_node_can_be_killed_and_comes_back_unthrottled(environment: MachineEnvironment, site: Site) -> None:
    node = environment.cluster.nodes[2]
    with fire(site, "cpu-starvation", (2,)):
        node.kill()
        assert not node.is_alive()
    assert node.running_percent(0.2) == 100


def test_a_node_out_of_memory_gets_none_until_it_heals(environment: MachineEnvironment, site: Site) -> None:
    node, plan = environment.cluster.nodes[3], environment.plans[2]
    with fire(site, "out-of-memory", (3,)) as fault:
        assert "the kernel limits node 3 to" in fault.evidence
        assert node.memory_limit() is not None
        assert _hoard(plan) == ("killed" if isinstance(environment, DockerEnvironment) else "MemoryError")
    assert node.memory_limit() is None
    assert _hoard(plan) == "held"


def _hoard(plan: NodePlan) -> str:
    try:
        return str(order(plan, do="hoard", bytes=256 << 20))
    except (OSError, ValueError):  # it hangs up, with no answer
        return "killed"


def test_what_a_fault_left_is_mended(environment: MachineEnvironment, site: Site) -> None:
    from nemesis.runner import mend

    node = environment.cluster.nodes[1]
    node.throttle(2)
    assert mend(site) == []
    assert node.running_percent(0.2) == 100
    node.pause()  # so that it needs no more memory meanwhile, of which it would die
    node.limit_memory()
    assert mend(site) == []
    assert node.memory_limit() is None
    assert not node.is_paused()


def test_every_kind_of_process_fault_is_shown_here() -> None:
    tested_in_other_files = {"kill", "pause", "restart"}  # tests of nodes
    mine = {name for name, kind in KINDS.items() if kind.needs <= {"process", "starvation"}} - tested_in_other_files
    shown = {"power-cut", "crash-loop", "rolling-restart", "cpu-starvation", "out-of-memory"}
    assert mine == shown, "write a test of the kind here, on real nodes, and add its name"
