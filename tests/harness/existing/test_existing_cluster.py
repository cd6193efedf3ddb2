"""`harrow run --bootstrap` against a cluster that the test has started, with and without hooks, and with mistakes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient, NewTopic

from harness.commands import cli
from harness.environments.existing.hooks import HOOK
from harness.environments.existing.leftovers import TOPIC, heal_cluster
from harness.environments.machine.helpers.programs import module_command
from harness.store.journal import Journal, read_journal
from harness.terminal.exits import ExitStatus
from history.reader import read_table
from tests.support.local_cluster import LocalCluster, eventually

pytestmark = pytest.mark.cluster

HOOKS = """
name = "staging"

[hooks.kill]
command = ["sh", "-c", "kill -9 $(cat {place}/{{{{ node.id }}}}.pid)"]

[hooks.start]
command = ["{python}", "{place}/start.py", "{{{{ node.id }}}}"]

[hooks.pause]
command = ["sh", "-c", "kill -STOP $(cat {place}/{{{{ node.id }}}}.pid)"]
verify = ["sh", "-c", "grep -q 'State:.T' /proc/$(cat {place}/{{{{ node.id }}}}.pid)/status"]

[hooks.resume]
command = ["sh", "-c", "kill -CONT $(cat {place}/{{{{ node.id }}}}.pid)"]
"""
START = """
import os, subprocess, sys
place, node = os.path.dirname(__file__), sys.argv[1]
with open(f"{place}/{node}.log", "ab") as log:
    started = subprocess.Popen(
        [sys.executable, "-m", "broker.shell", open(f"{place}/{node}.settings").read()],
        stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
    )
open(f"{place}/{node}.pid", "w").write(str(started.pid))
"""
"""Starts a broker again; the fixture ends it with the test."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3) as running:
        yield running


@pytest.fixture
def hooks(cluster: LocalCluster, tmp_path: Path) -> Iterator[Path]:
    """A definition whose hooks reach the brokers' processes; brokers that these started are replaced at the end."""
    for node in cluster.brokers:
        (tmp_path / f"{node.number}.pid").write_text(str(node.pid))
        (tmp_path / f"{node.number}.settings").write_text(str(node.directory / "node.properties"))
    (tmp_path / "start.py").write_text(START)
    path = tmp_path / "staging.toml"
    path.write_text(HOOKS.format(place=tmp_path, python=sys.executable))
    yield path
    for node in cluster.brokers:
        pid = int((tmp_path / f"{node.number}.pid").read_text())
        if pid != node.pid:
            with suppress(ProcessLookupError):  # a hook that failed left the first one alive, beside which none starts
                os.kill(pid, signal.SIGKILL)
            node.kill()
    cluster.start()


def run(store: Path, *words: str) -> tuple[int, Path]:
    """In a process of its own, which may have a Spark session."""
    done = subprocess.run(module_command("harness", "run", *words, "--store", str(store)), check=False)
    return done.returncode, store / "latest"


def topics(cluster: LocalCluster) -> set[str]:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        return set(admin.list_topics())
    finally:
        admin.close()


@pytest.mark.slow
def test_a_run_uses_a_topic_of_its_own_and_removes_it(cluster: LocalCluster, tmp_path: Path) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    admin.create_topics([NewTopic("orders", 1, 1)])
    admin.close()
    words = ["--bootstrap", cluster.bootstrap[0], "--duration", "3", "--no-check", "--seed", "1"]
    status, directory = run(tmp_path / "store", *words)
    assert status == ExitStatus.VALID
    (row,) = read_table(directory, "runs").to_pylist()
    assert (row["system"], row["environment"], row["brokers"], row["faults_wanted"]) == (
        "existing-cluster",
        "existing",
        3,
        False,
    )
    mechanisms = json.loads((directory / "spec.json").read_text())["mechanisms"]
    assert mechanisms["faults"] == "none: the definition has no hooks"
    assert "how nodes are run" in mechanisms["not in Harrow's hands"]
    used = {send["topic"] for send in read_table(directory, "sends").to_pylist()}
    assert len(used) == 1
    assert "orders" not in used
    assert {sample["topic"] for sample in read_table(directory, "cluster").to_pylist()} == used
    left = topics(cluster)
    assert "orders" in left
    assert not used & left
    assert all(node.process is not None and node.process.poll() is None for node in cluster.nodes.values())


@pytest.mark.slow
def test_hooks_kill_pause_and_heal_and_the_run_is_judged(cluster: LocalCluster, hooks: Path, tmp_path: Path) -> None:
    words = ["--bootstrap", ",".join(cluster.bootstrap), "--system", str(hooks)]
    status, directory = run(
        tmp_path / "store", *words, "--duration", "20", "--interval", "5", "--seed", "6", "--faults", "kill,pause"
    )
    faults = read_table(directory, "faults").to_pylist()
    assert {fault["kind"] for fault in faults if fault["took_hold"]} == {"kill", "pause"}, faults
    assert all(fault["healed"] for fault in faults), faults
    assert status == ExitStatus.VALID, json.loads((directory / "results.json").read_text())
    entries = list(read_journal(directory))
    assert sum(entry["kind"] == HOOK for entry in entries) == sum(entry["kind"] == "hook-healed" for entry in entries)
    assert entries[-1]["kind"] == "finished"


@pytest.mark.slow
def test_a_hook_that_fails_is_one_line_and_the_fault_did_not_take_effect(
    cluster: LocalCluster, hooks: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.toml"
    command = "['sh', '-c', 'echo forbidden for this account >&2; exit 7']"
    broken.write_text(f"name = 'broken'\nextends = '{hooks}'\n[hooks.kill]\ncommand = {command}\n")
    words = ["--bootstrap", cluster.bootstrap[0], "--system", str(broken), "--faults", "kill", "--no-check"]
    run(tmp_path / "store", *words, "--duration", "10", "--interval", "3", "--seed", "3")
    faults = read_table(tmp_path / "store" / "latest", "faults").to_pylist()
    assert faults
    assert not any(fault["took_hold"] for fault in faults)
    node = faults[0]["targets"][0]
    assert (
        f"expected the hook kill of node {node} to work, found that it ended with status 7: forbidden for this account"
        in faults[0]["evidence"]
    )


def test_heal_starts_what_a_killed_harness_left_dead_and_removes_its_topic(
    cluster: LocalCluster, hooks: Path, tmp_path: Path
) -> None:
    """The journal of a harness that died after its hook: `harrow heal` runs the hook that heals."""
    place = hooks.parent
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    admin.create_topics([NewTopic("harrow-left", 1, 1)])
    admin.close()
    directory = tmp_path / "run"
    journal = Journal(directory)
    journal.record(TOPIC, bootstrap=cluster.bootstrap, topic="harrow-left", groups=["harrow-left-readers-a"])
    heals = [sys.executable, str(place / "start.py"), "2"]
    for node, name, command in ((2, "kill", heals), (1, "pause", ["false"]), (3, "pause", ["false"])):
        journal.record(HOOK, node=node, name=name, within=10, command=command)
    journal.record("hook-healed", node=3, name="pause")
    pid = int((place / "2.pid").read_text())
    os.kill(pid, signal.SIGKILL)
    lines = list(heal_cluster(list(read_journal(directory))))
    assert lines == [
        "node 1, which the hook pause hurt, not healed: its hook ended with status 1",
        "node 2, which the hook kill hurt, healed",
        "topic harrow-left removed",
    ]
    eventually(lambda: b"ready" in (place / "2.log").read_bytes(), 30, "node 2 serves again")
    assert "harrow-left" not in topics(cluster)


def _refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, *words: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", *words, "--store", str(tmp_path / "store")])
    line = capsys.readouterr().err.strip()
    assert "\n" not in line, line
    assert not (tmp_path / "store").exists(), "nothing was started"
    return ended.value.code, line


def test_nobody_who_listens_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    status, line = _refused(capsys, tmp_path, "--bootstrap", f"127.0.0.1:{port}")
    assert status == ExitStatus.USAGE
    assert f"expected a Kafka broker at 127.0.0.1:{port}, found nobody who listens" in line


def test_a_port_of_something_else_is_one_line(
    cluster: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    controller = cluster.nodes[100].addresses["CONTROLLER"]
    status, line = _refused(capsys, tmp_path, "--bootstrap", controller)
    assert status == ExitStatus.USAGE
    assert f"expected a Kafka broker at {controller}, found none that answers as one" in line


@pytest.mark.parametrize("text", ["", "localhost", "a:b", ":9092", "a:0", "a:70000", "a:9092,"])
def test_an_address_that_is_none_is_one_line(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, line = _refused(capsys, tmp_path, "--bootstrap", text)
    assert status == ExitStatus.USAGE
    assert "bootstrap: expected HOST:PORT, with commas between several, found" in line


def test_a_missing_broker_is_one_line(
    cluster: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, line = _refused(capsys, tmp_path, "--bootstrap", cluster.bootstrap[0], "--brokers", "5")
    assert status == ExitStatus.USAGE
    assert "brokers: expected 5, found 3 in the cluster at" in line


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--faults", "kill"], "it needs the hooks kill and start, found none in existing-cluster"),
        (["--faults", "page-cache-loss"], "no hook can inject it"),
        (["--flush", "every-write"], "flush: expected none with --bootstrap, found every-write"),
        (["--workload", "admin"], "workload: expected log, register, queue or groups with --bootstrap, found admin"),
        (["--environment", "docker"], "environment: expected existing with --bootstrap, and only with it"),
    ],
)
def test_what_a_cluster_of_others_does_not_allow_is_one_line(
    words: list[str], expected: str, cluster: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, line = _refused(capsys, tmp_path, "--bootstrap", cluster.bootstrap[0], *words)
    assert status == ExitStatus.USAGE
    assert expected in line


@pytest.mark.parametrize(
    ("hooks_text", "expected"),
    [
        ("[hooks.kill]\ncommand = ['true']", "hooks.start: expected a hook that heals what kill does, found none"),
        ("[hooks.kil]\ncommand = ['true']", "heal, found 'kil'; did you mean kill?"),
        ("[hooks.kill]\nverify = ['true']", "hooks.kill.command: expected a command as a list of strings"),
        (
            "[hooks.kill]\ncommand = ['no-such-kubectl']\n[hooks.start]\ncommand = ['true']",
            "hooks.kill: expected the program 'no-such-kubectl', found none of that name",
        ),
        (
            "[hooks.kill]\ncommand = ['true', '{{ nod.id }}']\n[hooks.start]\ncommand = ['true']",
            "hooks: expected templates that can be filled in, found: 'nod' is undefined",
        ),
    ],
)
def test_a_mistake_in_hooks_is_one_line(
    hooks_text: str, expected: str, cluster: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    definition = tmp_path / "wrong.toml"
    definition.write_text(f"name = 'wrong'\n{hooks_text}\n")
    status, line = _refused(capsys, tmp_path, "--bootstrap", cluster.bootstrap[0], "--system", str(definition))
    assert status == ExitStatus.USAGE
    assert expected in line


def test_a_definition_of_existing_clusters_starts_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, line = _refused(capsys, tmp_path, "--system", "existing-cluster")
    assert status == ExitStatus.USAGE
    assert "without it the definition is for clusters that run already, which --bootstrap names" in line
