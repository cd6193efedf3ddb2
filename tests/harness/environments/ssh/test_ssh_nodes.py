"""Nodes on machines that are reached by SSH: servers in network namespaces, and every kind of fault on them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from harness.environments.base import EnvironmentFailed
from harness.environments.machine.kernel.process_identity import wait_until
from harness.environments.ssh.capabilities import SshCapabilities
from harness.environments.ssh.connection.facts import examine
from harness.environments.ssh.connection.ssh import SshConnection
from harness.environments.ssh.environment import SshEnvironment
from harness.store.journal import Journal
from harness.systems.definition import load
from harness.systems.runtime import on_host
from nemesis.capabilities.cluster import NodeError
from nemesis.faults.base import Site
from tests.harness.environments.conftest import need
from tests.support.foreign_systems import made
from tests.support.real_faults import all_links, fire, fresh_site, running_cluster
from tests.support.ssh_lab import FarStandIn, NamespaceFleet, lacking, server_on_loopback
from tests.support.stand_in import order, reply_is

pytestmark = [pytest.mark.ssh, pytest.mark.root]

_READY_S = 30.0
_HAS = frozenset({"nft", "ext4"})


def need_servers() -> None:
    if lack := lacking():
        pytest.skip(lack)
    need("clock")


def make(place: Path, brokers: int, controllers: int, *, installed: bool = True) -> SshEnvironment:
    fleet = NamespaceFleet(place / "hosts", brokers + controllers, installed=installed)
    return SshEnvironment(
        place / "run",
        FarStandIn(),
        brokers,
        controllers,
        fleet,
        SshCapabilities(_HAS, ours=False),
        needs=frozenset({"clock"}),
        journal=Journal(place / "run"),
    )


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshEnvironment]:
    need_servers()
    with running_cluster(make(tmp_path_factory.mktemp("ssh"), 2, 1), _READY_S) as made:
        yield made


@pytest.fixture
def site(environment: SshEnvironment) -> Iterator[Site]:
    with fresh_site(environment, _READY_S) as made:
        yield made


def _cut(environment: SshEnvironment) -> set[tuple[int, int]]:
    links = all_links(environment)
    return set(links - environment.cluster.network.reached(links))


def test_a_machine_reports_its_features_and_our_address(environment: SshEnvironment) -> None:
    machine = environment._fleet
    connection = SshConnection(machine.host(1), machine.dial(1))
    facts = examine(connection)
    connection.close()
    assert facts.harness_address == "10.77.0.254"
    assert facts.ssh_port == 22
    assert facts.has >= _HAS


@pytest.fixture
def definition(tmp_path: Path) -> Path:
    """Defines a broker on the host that reports its place from its shell's environment."""
    file = tmp_path / "there.toml"
    file.write_text(
        "name = 'there'\ninstall = 'install it'\nversion = ['sh', '-c', 'echo {{ values.place }} 9']\n"
        "[values]\nplace = ['sh', '-c', 'echo a line; echo {{ env.HOME }}/there \"$SSH_CONNECTION\"']\n"
        "[broker]\nstart = ['{{ values.place }}']\n"
    )
    return file


def test_a_host_reports_its_broker_and_its_python(environment: SshEnvironment, definition: Path) -> None:
    machine = environment._fleet
    with closing(SshConnection(machine.host(1), machine.dial(1))) as connection:
        runtime = on_host(load(definition), connection)
    messages = runtime.values["place"]
    assert messages.startswith(f"{runtime.env['HOME']}/there 10.77.0.254 "), "it was asked over the connection"
    assert runtime.version == f"{messages} 9"
    assert runtime.python == machine.host(1).python


def test_the_hosts_of_an_inventory_are_examined_before_anything_is_started(definition: Path, tmp_path: Path) -> None:
    need_servers()
    with server_on_loopback(tmp_path / "lab") as inventory:
        alone = {"brokers": 1, "replication_factor": 1, "min_insync_replicas": 1}
        system = made(definition, inventory=str(inventory), **alone)
    assert system.traits.versions["there"].endswith(" 9")
    assert "/there 127.0.0.1 " in system.runtimes[1].values["place"], "it was asked over the connection"


def test_a_host_that_lacks_the_broker_is_named(environment: SshEnvironment, definition: Path) -> None:
    machine = environment._fleet
    definition.write_text(definition.read_text().replace("version = ['sh', '-c',", "version = ['no-such-broker',"))
    connection = SshConnection(machine.host(1), machine.dial(1))
    with closing(connection), pytest.raises(EnvironmentFailed) as caught:
        on_host(load(definition), connection)
    line = str(caught.value)
    assert "version: expected 'no-such-broker' to print a value on host host-1, found: " in line
    assert "not found; install it" in line
    assert "\n" not in line


@pytest.mark.parametrize("wrong", ["key", "known_hosts"])
def test_a_wrong_key_on_either_side_is_refused(environment: SshEnvironment, wrong: str, tmp_path: Path) -> None:
    import paramiko

    file = tmp_path / "file"
    if wrong == "key":
        paramiko.ECDSAKey.generate().write_private_key_file(str(file))
    else:
        file.touch()
    fleet = environment._fleet
    with pytest.raises(EnvironmentFailed) as raised:
        SshConnection(replace(fleet.host(1), **{wrong: file}), fleet.dial(1))
    messages = {"key": "to let root in with the key", "known_hosts": "expected to know the key of host host-1"}
    assert messages[wrong] in str(raised.value)


def test_a_machine_is_one_runs_at_a_time(environment: SshEnvironment, tmp_path: Path) -> None:
    from harness.environments.ssh.machine import Machine

    plan = replace(environment.plans[0], socket=tmp_path / "socket")
    settings = replace(environment.cluster.nodes[1]._machine._settings, token="another")
    machine = Machine(plan, FarStandIn(), environment._fleet, settings)
    try:
        with pytest.raises(EnvironmentFailed, match="another run uses this machine"):
            machine.attach()
    finally:
        machine.close()


def test_processes_are_killed_paused_and_restarted(environment: SshEnvironment, site: Site) -> None:
    before = {number: node.pid for number, node in environment.cluster.nodes.items()}
    with fire(site, "power-cut", (1, 2, 100)) as fault:
        assert "killed and reaped" in fault.evidence
        assert not any(Path(f"/proc/{pid}").exists() for pid in before.values())
    assert set(before.values()).isdisjoint({node.pid for node in environment.cluster.nodes.values()})
    with fire(site, "pause", (1,)):
        assert environment.cluster.nodes[1].is_paused()
    with fire(site, "restart", (2,)) as fault:
        assert "status 0" in fault.evidence


def test_a_node_is_starved_of_time_and_of_memory(environment: SshEnvironment, site: Site) -> None:
    node = environment.cluster.nodes[1]
    with fire(site, "cpu-starvation", (1,), {"percent": "5"}):
        assert node.running_percent(0.5) < 50
    assert node.running_percent(0.2) == 100
    with fire(site, "out-of-memory", (1,)):
        assert order(environment.plans[0], do="hoard", bytes=256 << 20) == "MemoryError"
    assert node.memory_limit() is None


@pytest.mark.parametrize(
    ("kind", "targets", "parameters", "cut"),
    [
        ("isolate", (2,), {}, {(2, 0), (0, 2), (2, 1), (1, 2), (2, 100), (100, 2)}),
        ("one-way", (1,), {"direction": "in"}, {(0, 1), (2, 1), (100, 1)}),
        ("brokers-from-controllers", (1, 2), {}, {(1, 100), (100, 1), (2, 100), (100, 2)}),
        ("clients-from-brokers", (1,), {}, {(0, 1), (1, 0)}),
    ],
)
def test_links_are_cut_and_the_harness_is_not(
    environment: SshEnvironment,
    site: Site,
    kind: str,
    targets: tuple[int, ...],
    parameters: dict[str, str],
    cut: set[tuple[int, int]],
) -> None:
    with fire(site, kind, targets, parameters):
        assert _cut(environment) == cut
        assert all(node.is_ready() for node in environment.cluster.nodes.values())
    assert not _cut(environment)


def test_a_cut_silently_takes_established_connections(environment: SshEnvironment, site: Site) -> None:
    one, two = environment.plans[0], environment.plans[1]
    order(one, do="dial", to=environment.addresses.reach(1, 2, "BROKER"), **{"as": "held"})
    order(one, do="say", text="before", **{"as": "held"})
    assert reply_is(one, ["before"], do="echoes", **{"as": "held"})
    environment.cluster.network.block(frozenset({(1, 2)}))
    order(one, do="say", text="meanwhile", **{"as": "held"})
    assert not reply_is(two, True, 0.5, do="broken", **{"as": "held"})
    assert "meanwhile" not in order(two, do="heard")
    environment.cluster.network.unblock(frozenset({(1, 2)}))
    assert reply_is(one, ["before", "meanwhile"], 10.0, do="echoes", **{"as": "held"})


def test_connections_are_reset_and_counted(environment: SshEnvironment, site: Site) -> None:
    from nemesis.capabilities.shapes import PLAIN, Shape

    one = environment.plans[0]
    links = frozenset({(1, 2), (2, 1)})
    order(one, do="dial", to=environment.addresses.reach(1, 2, "BROKER"), **{"as": "doomed"})
    before = environment.cluster.network.shaping_counts().get("reset", 0)
    environment.cluster.network.shape(links, Shape(reset=True))
    order(one, do="say", text="never heard", **{"as": "doomed"})
    assert reply_is(one, True, do="broken", **{"as": "doomed"})
    assert environment.cluster.network.shaping_counts()["reset"] > before
    environment.cluster.network.shape(links, PLAIN)
    assert order(one, do="try-to-dial", to=environment.addresses.reach(1, 2, "BROKER")) == "connected"


def test_what_was_synced_stays_and_the_rest_is_lost(environment: SshEnvironment, site: Site) -> None:
    one = environment.plans[0]
    for count, sync in ((1000, True), (500, False)):
        order(one, do="append", file="0.log", bytes=count, sync=sync)
    with fire(site, "page-cache-loss", (1,)) as fault:
        assert "node 1 lost 500 bytes in 1 files by ext4" in fault.evidence
        assert environment.cluster.nodes[1].disk.files() == {"0.log": 1000}
    order(one, do="append", file="0.log", bytes=5000, sync=False)
    with fire(site, "torn-page-cache-loss", (1,), {"survives": "zeros"}):
        assert environment.cluster.nodes[1].disk.files() == {"0.log": 6000}


def test_a_disk_is_damaged_filled_and_copied_remotely(environment: SshEnvironment, site: Site) -> None:
    node, plan = environment.cluster.nodes[2], environment.plans[1]
    order(plan, do="append", file="0.log", bytes=1000, sync=True)
    with fire(site, "bit-flip", (2,), {"files": "log", "pick": "5"}) as fault:
        assert "of 0.log flipped" in fault.evidence
    with fire(site, "file-truncation", (2,), {"files": "log", "pick": "0"}):
        assert node.disk.files()["0.log"] < 1000
    with fire(site, "disk-loss", (2,)):
        assert not node.disk.files()
    node.disk.make_trouble("full")
    assert order(plan, do="append", file="1.log", bytes=100_000, sync=False) == "ENOSPC"
    assert node.disk.met_trouble() == 1
    node.disk.end_trouble()
    assert order(plan, do="append", file="1.log", bytes=100_000, sync=True) is None


def test_a_clock_is_the_nodes_own_and_never_this_machines(environment: SshEnvironment, site: Site) -> None:
    with fire(site, "clock-jump", (1,), {"offset-ms": "-3600000"}):
        wall, monotonic = order(environment.plans[0], do="time")
        assert wall - monotonic - (time.time() - time.monotonic()) == pytest.approx(-3600, abs=0.2)
        wall, monotonic = order(environment.plans[1], do="time")
        assert wall - monotonic - (time.time() - time.monotonic()) == pytest.approx(0, abs=0.2)
    with fire(site, "clock-drift", (1,), {"percent": "100"}) as fault:
        assert "gaining +100 %" in fault.evidence


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a short name: the path of a Unix socket in it may have 107 bytes only."""
    return tmp_path_factory.mktemp("ssh")


def test_the_cluster_ends_with_its_logs_here_and_nothing_there(place: Path) -> None:
    need_servers()
    made = make(place, 1, 0, installed=False)
    made.set_up()
    made.await_ready(_READY_S)
    pid = made.cluster.nodes[1].pid
    made.tear_down()
    assert (place / "run" / "nodes" / "1" / "node.log").read_text().startswith("serving")
    assert not Path(f"/proc/{pid}").exists()
    assert not list((place / "hosts" / "1" / "runs").iterdir())


def test_an_agent_that_is_killed_takes_its_node_along_and_the_rest_can_be_healed(place: Path) -> None:
    need_servers()
    made = make(place, 1, 0)
    try:
        made.set_up()
        made.await_ready(_READY_S)
        made.cluster.network.block(frozenset({(0, 1)}))
        node = made.cluster.nodes[1]
        pid = node.pid
        supervisor = _parent(pid)
        agent = _parent(supervisor)
        server = made._fleet.servers[1].pid
        os.kill(agent, 9)
        with pytest.raises(
            NodeError, match="expected the agent on host host-1 to answer, found that it is gone: it en"
        ):
            node.is_alive()
        assert wait_until(lambda: not Path(f"/proc/{pid}").exists(), 10.0)
        assert "harrow_" in _rules(server)
        assert (place / "hosts" / "1" / "runs").iterdir()
        messages = _heal(place / "run", made)
        assert any("rules" in line for line in messages)
        assert "harrow_" not in _rules(server)
        assert not list((place / "hosts" / "1" / "runs").iterdir())
    finally:
        made.tear_down()


def _heal(run_directory: Path, made: SshEnvironment) -> list[str]:
    from harness.environments.ssh.machine import heal_host
    from harness.store.journal import read_journal

    (entry,) = [entry for entry in read_journal(run_directory) if entry["kind"] == "ssh"]
    return heal_host(made._token, entry, made._fleet.dial(1))


def _parent(pid: int | None) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[1])


def _rules(server: int) -> str:
    command = ["nsenter", f"--net=/proc/{server}/ns/net", "nft", "list", "ruleset"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
