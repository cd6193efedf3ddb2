"""Nodes in containers: what a container adds to a node, and what it must not take from it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.environments.base import EnvironmentFailed
from harness.environments.docker import host
from harness.environments.docker.capabilities import try_docker
from harness.environments.docker.engine import connect, containers_of
from harness.environments.docker.environment import DockerEnvironment
from harness.environments.docker.host import Limits
from harness.environments.machine.kernel import process_identity
from harness.store.journal import Journal
from nemesis.capabilities.cluster import NodeError
from nemesis.faults.base import Site
from tests.harness.environments.conftest import cluster_in, need
from tests.support.real_faults import all_links, fire, real_site
from tests.support.stand_in import StandIn, order

pytestmark = pytest.mark.docker

_READY_S = 30.0
_MIB = 1 << 20


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerEnvironment]:
    directory = tmp_path_factory.mktemp("containers")
    limits = Limits(memory_mib=256, cpus=0.5)
    with cluster_in("docker", directory, brokers=3, page_cache="page-cache", limits=limits) as made:
        assert isinstance(made, DockerEnvironment)
        yield made


@pytest.fixture
def site(environment: DockerEnvironment) -> Site:
    return real_site(environment)


def _token(environment: DockerEnvironment) -> str:
    return environment.plans[0].socket.parent.name.removeprefix("harrow-")


def _network_of(pid: int | None) -> str:
    return str(Path(f"/proc/{pid}/ns/net").readlink())


def _cut(environment: DockerEnvironment) -> set[tuple[int, int]]:
    links = all_links(environment)
    return set(links - environment.cluster.network.reached(links))


def test_a_node_is_a_container_and_another_holds_its_network(environment: DockerEnvironment) -> None:
    names = {container.name for container in containers_of(connect(), _token(environment))}
    ends = [f"{what}-{node}" for what in ("network", "node") for node in (1, 2, 3, 100)]
    assert names == {f"harrow-{_token(environment)}-{end}" for end in ends}
    assert len({_network_of(node.pid) for node in environment.cluster.nodes.values()}) == 4


def test_a_node_keeps_its_network_its_cuts_and_its_container_over_a_restart(environment: DockerEnvironment) -> None:
    node = environment.cluster.nodes[1]
    before, container = node.pid, node._host._container.id
    network = _network_of(before)
    environment.cluster.network.block(frozenset({(1, 2)}))
    node.kill()
    assert not node.is_alive()
    assert process_identity.states(before or 0) == set()
    node.start()
    node.await_ready(_READY_S)
    assert node.pid != before
    assert node._host._container.id == container
    assert _network_of(node.pid) == network
    assert _cut(environment) == {(1, 2)}
    environment.cluster.network.unblock(frozenset({(1, 2)}))
    assert not _cut(environment)


def test_a_node_may_have_what_it_was_given_and_no_more(environment: DockerEnvironment) -> None:
    node = environment.cluster.nodes[2]
    assert host.memory_limit(node.pid or 0) == 256 * _MIB
    assert node.memory_limit() is None
    node._host._container.reload()
    assert node._host._container.attrs["HostConfig"]["NanoCpus"] == 500_000_000
    assert 0 < host.memory_in_use(node.pid or 0) < 256 * _MIB


def test_files_have_the_same_path_inside_and_outside(environment: DockerEnvironment) -> None:
    plan = environment.plans[2]
    assert order(plan, do="append", file="0.log", bytes=700, sync=True) is None
    assert (plan.data / "0.log").read_bytes() == b"x" * 700
    assert "serving" in (plan.directory / "node.log").read_text()


def test_an_additional_program_of_a_node_runs_in_its_container(environment: DockerEnvironment) -> None:
    node, found = environment.cluster.nodes[3], environment.plans[2].directory / "found"
    script = f"import os; open({str(found)!r}, 'w').write(os.readlink('/proc/1/ns/net'))"
    node._host.run_beside([sys.executable, "-c", script], found.with_suffix(".log"))
    assert process_identity.wait_until(lambda: found.exists() and found.read_text() == _network_of(node.pid), _READY_S)


@pytest.mark.parametrize(
    ("kind", "evidence"),
    [
        ("kill", "killed and reaped"),
        ("pause", "node 1"),
        ("restart", "shut down cleanly, exit status 0"),
        ("page-cache-loss", r"node 1 lost (500 bytes|1,\d00 bytes in [234] files)"),  # and what an earlier case left
    ],
)
def test_a_fault_of_a_node_takes_effect_and_heals(
    environment: DockerEnvironment, site: Site, kind: str, evidence: str
) -> None:
    node = environment.cluster.nodes[1]
    order(environment.plans[0], do="append", file=f"{kind}.log", bytes=700, sync=True)
    order(environment.plans[0], do="append", file=f"{kind}.log", bytes=500, sync=False)
    before = node.pid
    with fire(site, kind, (1,)) as fault:
        assert re.search(evidence, fault.evidence), fault.evidence
        assert not node.is_ready()
        assert node.is_alive() == node.is_paused() == (kind == "pause")
    assert node.is_ready()
    assert (node.pid == before) == (kind == "pause")
    assert node.disk.files()[f"{kind}.log"] == (700 if kind == "page-cache-loss" else 1200)


@pytest.mark.parametrize(
    ("kind", "targets", "cut"),
    [
        ("isolate", (1,), {(1, end) for end in (0, 2, 3, 100)} | {(end, 1) for end in (0, 2, 3, 100)}),
        ("one-way", (1,), {(end, 1) for end in (0, 2, 3, 100)}),
        ("halves", (1, 2), {(a, b) for a in (1, 2) for b in (3, 100)} | {(b, a) for a in (1, 2) for b in (3, 100)}),
    ],
)
def test_a_fault_of_the_network_takes_effect_and_heals(
    environment: DockerEnvironment, site: Site, kind: str, targets: tuple[int, ...], cut: set[tuple[int, int]]
) -> None:
    with fire(site, kind, targets, {"direction": "in", "controller": "rest", "clients": "both"}):
        assert _cut(environment) == cut
    assert not _cut(environment)


def test_two_harnesses_do_not_disturb_each_other(environment: DockerEnvironment, tmp_path: Path) -> None:
    with cluster_in("docker", tmp_path, brokers=1, controllers=0, page_cache="page-cache") as other:
        assert isinstance(other, DockerEnvironment)
        environment.cluster.network.block(all_links(environment))
        assert not _cut(other)
        assert other.cluster.nodes[1].is_ready()
        environment.cluster.network.unblock(all_links(environment))
    assert containers_of(connect(), _token(other)) == []
    assert all(node.is_ready() for node in environment.cluster.nodes.values())


def test_a_node_that_dies_at_start_is_explained_by_its_last_log_lines(tmp_path: Path) -> None:
    script = "import sys; print('disk on fire', file=sys.stderr); sys.exit(4)"
    dying = cluster_in("docker", tmp_path, StandIn([sys.executable, "-c", script]), brokers=1, controllers=0)
    with pytest.raises(NodeError) as caught, dying:
        pass
    summary, *lines = str(caught.value).splitlines()
    assert summary == "expected node 1 to start, found that it ended with status 4; its last log lines:"
    assert [line.strip() for line in lines] == ["disk on fire"]


def test_a_command_that_is_not_in_the_image_is_an_error_and_nothing_is_left(tmp_path: Path) -> None:
    need("docker")
    system = StandIn(["/no/such/broker"])
    made = DockerEnvironment(tmp_path, system, 1, 0, page_cache="page-cache", journal=Journal(tmp_path))
    with pytest.raises(NodeError, match=r"expected Docker to run '/no/such/broker' as node 1, found: .*no such file"):
        made.set_up()
    assert containers_of(connect(), _token(made)) == []
    assert not made.plans[0].socket.parent.exists()


def test_an_image_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    need("docker")
    made = DockerEnvironment(tmp_path, StandIn(), 1, 0, image_name="nobody/made-this:1", journal=Journal(tmp_path))
    with pytest.raises(
        EnvironmentFailed, match="expected the image nobody/made-this:1, found none; docker pull"
    ) as caught:
        made.set_up()
    assert "\n" not in str(caught.value)


def test_an_engine_on_a_remote_machine_is_reported_and_left_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("docker")
    monkeypatch.setattr(process_identity, "of_run", lambda token: iter(()))
    made = DockerEnvironment(tmp_path, StandIn(), 1, 0, page_cache="page-cache", journal=Journal(tmp_path))
    with pytest.raises(EnvironmentFailed, match="containers to run on this machine, found no process of theirs"):
        made.set_up()
    assert containers_of(connect(), _token(made)) == []


@pytest.mark.parametrize("missing", ["package", "engine"])
def test_what_is_missing_is_one_line(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    if missing == "package":
        monkeypatch.setitem(sys.modules, "docker", None)
    else:
        need("docker")
        monkeypatch.setenv("DOCKER_HOST", "unix:///no/such/socket")
    result = try_docker.__wrapped__()
    assert not result.available
    assert result.found.startswith("no Python package docker" if missing == "package" else "no Docker engine answers")
    assert "\n" not in result.found
