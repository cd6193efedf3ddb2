from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from harness.environments.base import EnvironmentFailed
from harness.environments.machine.kernel import process_identity
from nemesis.capabilities.cluster import NodeError
from tests.harness.environments.conftest import MakeEnvironment
from tests.support.stand_in import StandIn, order

_READY_S = 20.0


def test_all_nodes_serve_once_they_are_set_up(make_environment: MakeEnvironment) -> None:
    environment = make_environment()
    environment.set_up()
    environment.await_ready(_READY_S)
    assert {node_id: node.role for node_id, node in environment.cluster.nodes.items()} == {
        1: "broker",
        2: "broker",
        3: "broker",
        100: "controller",
    }
    assert all(node.is_ready() for node in environment.cluster.nodes.values())
    assert "serving" in (environment.plans[0].directory / "node.log").read_text()


def test_a_killed_node_is_dead_at_once_and_can_be_started_again(make_environment: MakeEnvironment) -> None:
    environment = make_environment(brokers=1)
    environment.set_up()
    environment.await_ready(_READY_S)
    node = environment.cluster.nodes[1]
    before = node.pid
    node.kill()
    assert not node.is_alive()
    assert not node.is_ready()
    assert before is not None
    assert process_identity.states(before) == set()
    node.start()
    node.await_ready(_READY_S)
    assert node.pid != before


def test_killing_a_dead_node_does_nothing(make_environment: MakeEnvironment) -> None:
    environment = make_environment(brokers=1)
    environment.set_up()
    environment.cluster.nodes[1].kill()
    environment.cluster.nodes[1].kill()
    assert not environment.cluster.nodes[1].is_alive()


def test_a_paused_node_exists_but_does_not_serve_until_it_is_resumed(make_environment: MakeEnvironment) -> None:
    environment = make_environment(brokers=1)
    environment.set_up()
    environment.await_ready(_READY_S)
    node = environment.cluster.nodes[1]
    node.pause()
    assert node.pid is not None
    assert process_identity.states(node.pid) == {"T"}
    assert (node.is_alive(), node.is_paused(), node.is_ready()) == (True, True, False)
    node.resume()
    assert (node.is_paused(), node.is_ready()) == (False, True)


def test_a_paused_node_can_be_killed(make_environment: MakeEnvironment) -> None:
    environment = make_environment(brokers=1)
    environment.set_up()
    node = environment.cluster.nodes[1]
    node.pause()
    node.kill()
    assert (node.is_alive(), node.is_paused()) == (False, False)


def test_a_controlled_stop_gives_the_exit_status(make_environment: MakeEnvironment) -> None:
    environment = make_environment(brokers=1)
    environment.set_up()
    environment.await_ready(_READY_S)
    assert environment.cluster.nodes[1].stop(_READY_S) == 0
    assert not environment.cluster.nodes[1].is_alive()


def test_a_node_that_does_not_stop_in_time_is_killed_and_reported(make_environment: MakeEnvironment) -> None:
    environment = make_environment(StandIn(deaf_to_sigterm=True), brokers=1)
    environment.set_up()
    environment.await_ready(_READY_S)
    with pytest.raises(NodeError, match=r"node 1 to shut down within 0\.2 s, found it running and killed it"):
        environment.cluster.nodes[1].stop(0.2)
    assert not environment.cluster.nodes[1].is_alive()


def test_a_node_that_dies_at_start_is_explained_by_its_last_log_lines(make_environment: MakeEnvironment) -> None:
    script = "import sys; print('disk on fire', file=sys.stderr); sys.exit(4)"
    environment = make_environment(StandIn([sys.executable, "-c", script]), brokers=1)
    environment.set_up()
    with pytest.raises(NodeError) as caught:
        environment.await_ready(_READY_S)
    summary, *lines = str(caught.value).splitlines()
    assert summary == "expected node 1 to start, found that it ended with status 4; its last log lines:"
    assert [line.strip() for line in lines] == ["disk on fire"]


def test_a_command_that_does_not_exist_is_an_error_and_nothing_is_left(make_environment: MakeEnvironment) -> None:
    environment = make_environment(StandIn(["/no/such/broker"]), brokers=1)
    with pytest.raises(NodeError, match="expected to run '/no/such/broker' as node 1, found:"):
        environment.set_up()
    assert not environment.plans[0].socket.parent.exists()


def test_faults_on_a_dead_node_are_refused(make_environment: MakeEnvironment) -> None:
    environment = make_environment(brokers=1)
    environment.set_up()
    node = environment.cluster.nodes[1]
    with pytest.raises(NodeError, match="to have been killed, found it running"):
        node.lose_page_cache()
    with pytest.raises(NodeError, match="to be stopped, found it running as process"):
        node.start()
    node.kill()
    for fault in (node.pause, node.resume, lambda: node.stop(1.0)):
        with pytest.raises(NodeError, match="to be running, found that it was killed by SIGKILL"):
            fault()


def test_a_node_takes_its_children_with_it(make_environment: MakeEnvironment, tmp_path: Path) -> None:
    pid_file = tmp_path / "child"
    script = (
        "import os, pathlib, subprocess, time;"
        f"pathlib.Path({str(pid_file)!r}).write_text(str(subprocess.Popen(['sleep', '600']).pid)); time.sleep(600)"
    )
    environment = make_environment(StandIn([sys.executable, "-c", script]), brokers=1, controllers=0)
    environment.set_up()
    assert process_identity.wait_until(lambda: pid_file.exists() and pid_file.read_text() != "", 10)
    child = int(pid_file.read_text())
    environment.cluster.nodes[1].kill()
    assert process_identity.wait_until(lambda: process_identity.states(child) <= {"Z"}, 5)


def test_a_client_has_pipes_and_ends_with_the_run(make_environment: MakeEnvironment, tmp_path: Path) -> None:
    environment = make_environment(brokers=1, controllers=0)
    environment.set_up()
    client = environment.spawn_client(["cat"], tmp_path / "client.log")
    client.stdin.write(b"hello\n")
    client.stdin.flush()
    assert client.stdout.readline() == b"hello\n"
    client.stdin.close()
    assert client.wait(5) == 0
    sleeper = environment.spawn_client(["sleep", "600"], tmp_path / "client.log")
    with pytest.raises(TimeoutError):
        sleeper.wait(0.05)
    assert sleeper.poll() is None
    environment.tear_down()
    assert process_identity.wait_until(lambda: process_identity.states(sleeper.pid) <= {"Z"}, 5)


def test_nothing_is_there_before_set_up_and_nothing_after_tear_down(make_environment: MakeEnvironment) -> None:
    environment = make_environment(brokers=1)
    with pytest.raises(EnvironmentFailed, match="expected the environment to be set up"):
        _ = environment.cluster
    environment.tear_down()
    environment.set_up()
    pids = [node.pid for node in environment.cluster.nodes.values()]
    environment.tear_down()
    environment.tear_down()
    assert all(process_identity.states(pid or 0) == set() for pid in pids)


def test_a_set_up_that_is_interrupted_takes_down_what_it_made(
    make_environment: MakeEnvironment, monkeypatch: pytest.MonkeyPatch, network: str, page_cache: str
) -> None:
    environment = make_environment(network=network, page_cache=page_cache)
    configured = []

    def interrupt(*_: object) -> None:
        configured.append(1)
        if len(configured) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(StandIn, "configure", interrupt)
    with pytest.raises(KeyboardInterrupt):
        environment.set_up()
    assert not environment.plans[0].socket.parent.exists()
    assert list(process_identity.of_run(environment.plans[0].socket.parent.name.removeprefix("harrow-"))) == []
    assert str(environment.plans[0].data) not in Path("/proc/self/mountinfo").read_text()


def test_nodes_and_harness_share_one_monotonic_clock(make_environment: MakeEnvironment, tmp_path: Path) -> None:
    environment = make_environment(brokers=1, controllers=0)
    environment.set_up()
    before = time.monotonic_ns()
    client = environment.spawn_client(
        [sys.executable, "-c", "import time; print(time.monotonic_ns())"], tmp_path / "client.log"
    )
    assert before < int(client.stdout.readline()) < time.monotonic_ns()


def test_descriptors_do_not_pile_up_over_restarts(make_environment: MakeEnvironment) -> None:
    environment = make_environment(brokers=1, controllers=0)
    environment.set_up()
    node = environment.cluster.nodes[1]
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        node.kill()
        node.start()
    node.await_ready(_READY_S)
    assert order(environment.plans[0], do="ready") is True
    assert len(list(Path("/proc/self/fd").iterdir())) <= open_before
