"""Nodes in VMs that are made for the run: what only such a machine can lose, and its kernel do."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.environments.base import EnvironmentFailed
from harness.environments.machine.kernel.process_identity import of_run
from harness.environments.ssh.capabilities import CAPABILITIES_OF_VMS
from harness.environments.ssh.environment import SshEnvironment
from harness.environments.ssh.vms.probe import need_vms, try_vms
from harness.store.journal import Journal
from nemesis.capabilities.cluster import NodeError
from nemesis.capabilities.shapes import Shape
from nemesis.faults.base import Site
from tests.support.real_faults import all_links, fire, fresh_site, running_cluster
from tests.support.stand_in import order

pytestmark = [pytest.mark.qemu, pytest.mark.slow, pytest.mark.timeout(600)]

_READY_S = 120.0
_LOOK_S = 0.05
LINKS = frozenset({(1, 2), (2, 1)})


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshEnvironment]:
    if not (result := try_vms()).available:
        pytest.skip(result.found)
    from harness.environments.ssh.vms.fleet import VmFleet
    from tests.support.ssh_lab import FarStandIn

    place = tmp_path_factory.mktemp("vms")
    made = SshEnvironment(
        place / "run",
        FarStandIn(),
        2,
        0,
        VmFleet(),
        CAPABILITIES_OF_VMS,
        needs=frozenset({"clock"}),
        journal=Journal(place / "run"),
    )
    with running_cluster(made, _READY_S):
        yield made
    assert not list(of_run(made._token))


@pytest.fixture
def site(environment: SshEnvironment) -> Iterator[Site]:
    with fresh_site(environment, _READY_S) as made:
        yield made


def test_what_was_synced_survives_a_loss_of_power_and_cuts_and_clocks_with_it(
    environment: SshEnvironment, site: Site
) -> None:
    one, node = environment.plans[0], environment.cluster.nodes[1]
    for count, sync in ((1000, True), (500, False)):
        order(one, do="append", file="0.log", bytes=count, sync=sync)
    order(one, do="append", file="new.log", bytes=700, sync=False)
    before = environment._fleet._vms[1].pid
    with fire(site, "one-way", (1,), {"direction": "in"}), fire(site, "clock-jump", (1,), {"offset-ms": "-3600000"}):
        cut = all_links(environment) - environment.cluster.network.reached(all_links(environment))
        assert cut == {(0, 1), (2, 1)}
        with fire(site, "page-cache-loss", (1,)) as fault:
            assert "node 1 lost 1,200 bytes in 2 files by power-cut" in fault.evidence
            assert node.disk.files() == {"0.log": 1000}
            assert not Path(f"/proc/{before}").exists()
            assert all_links(environment) - environment.cluster.network.reached(all_links(environment)) == cut
            assert node.clock.error_ms() == pytest.approx(-3_600_000, abs=2000)
    assert not all_links(environment) - environment.cluster.network.reached(all_links(environment))
    order(one, do="append", file="0.log", bytes=5000, sync=False)
    node.kill()
    assert node.lose_page_cache("zeros").lost_bytes == 5000
    assert node.disk.files() == {"0.log": 6000}


def test_a_template_that_another_version_of_harrow_deletes_serves_on(environment: SshEnvironment, site: Site) -> None:
    kept = Path(environment._fleet._template.kept.name)
    away = kept.with_suffix(".away")
    kept.rename(away)
    try:
        with fire(site, "page-cache-loss", (2,)) as fault:
            assert "by power-cut" in fault.evidence
    finally:
        away.rename(kept)


def test_the_clock_of_a_vm_is_a_real_one_and_this_machines_is_left_alone(
    environment: SshEnvironment, site: Site
) -> None:
    here = time.time() - time.monotonic()

    def ahead_s() -> list[float]:
        return [order(plan, do="time")[0] - time.time() for plan in environment.plans]

    began, first = time.monotonic(), order(environment.plans[0], do="time")
    time.sleep(2.0)
    took, later = time.monotonic() - began, order(environment.plans[0], do="time")
    assert later[1] - first[1] == pytest.approx(took, rel=0.1), "the clock of the template was measured wrong"
    assert later[0] - first[0] == pytest.approx(took, rel=0.1)
    one, two = ahead_s()
    with fire(site, "clock-jump", (2,), {"offset-ms": "3600000"}):
        assert ahead_s() == pytest.approx([one, two + 3600], abs=10)
    with fire(site, "clock-drift", (2,), {"percent": "100"}):
        first, began = order(environment.plans[1], do="time")
        time.sleep(1.0)
        later, ended = order(environment.plans[1], do="time")
        assert (later - first) / (ended - began) == pytest.approx(2.0, abs=0.3)
    assert time.time() - time.monotonic() == pytest.approx(here, abs=0.1)


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("slow-network", {"delay-ms": "200", "jitter-percent": "25"}),
        ("packet-loss", {"percent": "30"}),
        ("packet-duplication", {"percent": "50"}),
        ("packet-reordering", {"percent": "25"}),
        ("thin-network", {"kbit": "200"}),
    ],
)
def test_the_kernel_of_a_vm_shapes_its_links(
    environment: SshEnvironment, site: Site, kind: str, parameters: dict[str, str]
) -> None:
    with fire(site, kind, (2,), {"from": "nodes", **parameters}) as fault:
        assert "packets arrived" in fault.evidence
        assert set(environment.cluster.network.shaped()) == LINKS
        spared = environment.cluster.network.sample([(0, 2), (2, 0)], 20, 200, 5.0)
        assert (spared.arrived, spared.copies, spared.overtaken) == (40, 40, 0)
    assert not environment.cluster.network.shaped()


def test_what_comes_from_clients_is_shaped_and_the_harness_is_not(environment: SshEnvironment, site: Site) -> None:
    network = environment.cluster.network
    network.shape(frozenset({(0, 1)}), Shape(loss_percent=100))
    assert not network.reaches(0, 1)
    assert network.reaches(1, 0)
    assert environment.cluster.nodes[1].is_ready()
    network.shape(frozenset({(0, 1)}), Shape())
    assert network.reaches(0, 1)


def test_the_disk_of_a_vm_is_filled(environment: SshEnvironment, site: Site) -> None:
    plan, disk = environment.plans[1], environment.cluster.nodes[2].disk
    disk.make_trouble("full")
    assert order(plan, do="append", file="1.log", bytes=100_000, sync=False) == "ENOSPC"
    disk.end_trouble()
    assert order(plan, do="append", file="1.log", bytes=100_000, sync=True) is None


def test_a_thread_that_watches_the_nodes_sees_losses_of_power_as_deaths(
    environment: SshEnvironment, site: Site
) -> None:
    """As in the main phase, but so often that a request is likely to be pending when the power is cut."""
    done = threading.Event()

    def watch() -> set[bool]:
        seen = set()
        while not done.wait(_LOOK_S):
            seen |= {node.is_alive() for node in environment.cluster.nodes.values()}
        return seen

    with ThreadPoolExecutor(1) as watcher:
        watching = watcher.submit(watch)
        try:
            for node_id in (1, 2):
                with fire(site, "page-cache-loss", (node_id,)) as fault:
                    assert "by power-cut" in fault.evidence
        finally:
            done.set()
        assert watching.result() == {True, False}


_PARENT = r"sed -n 's/^PPid:\t//p' /proc/{}/status"


def test_an_error_of_a_gone_agent_describes_its_end_and_its_vm(environment: SshEnvironment, site: Site) -> None:
    """The agent is the supervisor's parent, and the supervisor is the node's."""
    node, vm = environment.cluster.nodes[2], environment._fleet._vms[2]
    supervisor = vm.run(_PARENT.format(node.pid)).strip()
    vm.run(f"kill -9 $({_PARENT.format(supervisor)})")
    with pytest.raises(
        NodeError, match="host vm-2 to answer, found that it is gone: it ended with status 137; its VM runs"
    ):
        node.is_alive()
    node._machine.lose_power()
    node.start()
    node.await_ready(_READY_S)
    os.kill(environment._fleet._vms[2].pid, signal.SIGKILL)
    with pytest.raises(NodeError, match="found that it is gone: the connection was lost; its VM ended with status -9"):
        node.is_alive()
    node._machine.lose_power()
    node.start()
    node.await_ready(_READY_S)


def test_no_two_vms_draw_the_same_numbers(environment: SshEnvironment, site: Site) -> None:
    from harness.environments.ssh.connection.ssh import SshConnection

    drawn = []
    for node_id in (1, 2):
        connection = SshConnection(environment._fleet.host(node_id))
        drawn.append(connection.run("cat /proc/sys/kernel/random/uuid").output)
        connection.close()
    assert len(drawn[0].strip()) == 36
    assert drawn[0] != drawn[1]


def test_a_machine_without_memory_is_refused_before_anything_starts() -> None:
    if not (result := try_vms()).available:
        pytest.skip(result.found)
    with pytest.raises(EnvironmentFailed, match=r"expected \d+ MiB of free memory for 1000000 VMs, found"):
        need_vms(1_000_000)
