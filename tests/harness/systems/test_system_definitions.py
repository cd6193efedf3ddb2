"""Definition files: the shipped ones are valid, an error is one line, and templates know the cluster."""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.core.broker_node.groups.records import partition_of
from common.names import SpecError
from harness.commands import cli
from harness.environments.local.environment import LocalEnvironment
from harness.environments.machine.node import log_files
from harness.shipped import SYSTEMS
from harness.spec.spec import Spec, resolve
from harness.store.journal import Journal
from harness.systems.definition import load
from harness.systems.factory import make_system
from harness.systems.foreign import CONFIG_NAME
from harness.systems.own.harrow_broker import HarrowBroker
from harness.terminal.exits import ExitStatus
from tests.support.foreign_systems import MINIMAL, ROOT, Links, made, plans_of, spec_for

SHIPPED = list(SYSTEMS.files().values())
Written = Callable[[str], Path]


def program(path: Path, says: str = "1.2.3") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {says}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_definition_is_sound_and_says_how_to_get_the_broker(path: Path) -> None:
    definition = load(path)
    assert definition.name == path.stem
    assert definition.install
    assert spec_for(path).system == path.stem


def test_kafka_gets_the_settings_of_a_cluster_with_its_controllers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    for name in ("kafka-server-start.sh", "kafka-storage.sh", "kafka-topics.sh"):
        program(tmp_path / "bin" / name)
    system = made(SYSTEMS.files()["apache-kafka"], brokers=2, replication_factor=2, controllers=3, flush="50ms")
    assert system.traits.versions == {"apache-kafka": "1.2.3"}
    plans = plans_of(system.spec, tmp_path)
    for plan in plans:
        system.configure(plan, plans, Links())
    broker = dict(line.split("=", 1) for line in (plans[0].directory / "node.properties").read_text().split())
    assert broker["controller.quorum.voters"] == "100@127.0.0.1:10194,101@127.0.0.1:10204,102@127.0.0.1:10214"
    assert broker["listeners"] == "CLIENT://10.0.0.1:9092,BROKER://10.0.0.1:9093"
    assert broker["advertised.listeners"] == "CLIENT://127.0.0.1:9102,BROKER://10.0.0.1:9093"
    assert broker["log.dirs"] == str(plans[0].data)
    assert broker["unclean.leader.election.enable"] == "false"
    assert broker["log.flush.interval.ms"] == "50"
    assert "log.flush.interval.messages" not in broker
    controller = (plans[3].directory / "node.properties").read_text()
    assert "101@10.0.0.101:9094" in controller
    config = json.loads((plans[0].directory / CONFIG_NAME).read_text())
    assert config["command"] == [f"{tmp_path}/bin/kafka-server-start.sh", f"{plans[0].directory}/node.properties"]
    traits = system.traits
    assert (traits.orderly_exits, traits.start_s, traits.stop_s) == ({0, 143, -15}, 90, 60)
    assert traits.session_ms_min == 6_000
    assert [system.offsets_partition_of(group) for group in traits.groups] == [
        partition_of(group, 50) for group in traits.groups
    ]
    assert config["environment"]["LOG_DIR"] == f"{plans[0].directory}/logs"
    assert config["nodes"] == {"10.0.0.1:9092": 1, "127.0.0.1:9102": 1, "10.0.0.2:9092": 2, "127.0.0.1:9112": 2}


def test_combined_nodes_of_kafka_are_brokers_and_controllers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    for name in ("kafka-server-start.sh", "kafka-storage.sh", "kafka-topics.sh"):
        program(tmp_path / "bin" / name)
    system = made(SYSTEMS.files()["apache-kafka"], controllers=2, combined=True)
    plans = plans_of(system.spec, tmp_path)
    assert [(plan.node_id, plan.role) for plan in plans] == [(1, "combined"), (2, "combined"), (3, "broker")]
    for plan in plans:
        system.configure(plan, plans, Links())
    first, _, third = (
        dict(line.split("=", 1) for line in (plan.directory / "node.properties").read_text().split()) for plan in plans
    )
    assert (first["process.roles"], third["process.roles"]) == ("broker,controller", "broker")
    assert first["controller.quorum.voters"] == "1@10.0.0.1:9094,2@127.0.0.1:9214"
    assert third["controller.quorum.voters"] == "1@127.0.0.1:9404,2@127.0.0.1:9414"
    assert first["listeners"] == "CLIENT://10.0.0.1:9092,BROKER://10.0.0.1:9093,CONTROLLER://10.0.0.1:9094"
    assert "CONTROLLER" not in first["advertised.listeners"] + third["listeners"]
    asked = [json.loads((plan.directory / CONFIG_NAME).read_text()) for plan in plans]
    assert [config["quorum_address"] for config in asked] == [["10.0.0.1", 9094], ["10.0.0.2", 9094], None]
    assert all(config["nodes"]["10.0.0.3:9092"] == 3 and config["nodes"]["10.0.0.1:9092"] == 1 for config in asked)


def test_redpanda_gets_its_seeds_and_has_no_controllers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "redpanda")
    monkeypatch.setenv("REDPANDA", str(tmp_path / "redpanda"))
    system = made(SYSTEMS.files()["redpanda"])
    assert system.spec.controllers == 0
    plans = plans_of(system.spec, tmp_path)
    system.configure(plans[1], plans, Links())
    text = (plans[1].directory / "redpanda.yaml").read_text()
    assert text.count("- host:\n") == 3
    assert 'address: "10.0.0.2"\n        port: 9095' in text
    assert 'advertised_kafka_api:\n    - name: client\n      address: "127.0.0.1"\n      port: 9112' in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "nmae = 'x'",
            "expected a key, found 'nmae'; did you mean name?",
        ),
        ("[broker]\nstart = ['x']", "name: expected a string, found none"),
        ("name = 'x'", "broker: expected a table, found none"),
        ("name = 'x'\n[broker]", "broker.start: expected the command that runs a node, or an image, found neither"),
        ("name = 'x'\n[broker]\nstart = 'run it'", "broker.start: expected a command as a list of strings"),
        ("name = 'x'\n[broker]\nstart = []", "broker.start: expected a command as a list of strings"),
        ("name = 'x'\n[broker]\nstart = ['x']\nlisteners = ['RPC']", "expected different names, CLIENT first"),
        (
            "name = 'x'\n[broker]\nstart = ['x']\n[combined]\nstart = ['x']",
            "controller: expected a table, beside that of combined nodes, found none",
        ),
        (
            "name='x'\nbroker.start=['x']\ncontroller.start=['x']\n[combined]\nstart=['x']\nlisteners=['CLIENT']",
            "combined.listeners: expected CONTROLLER among the names",
        ),
        ("name = 'x'\n[broker]\nstart = ['x']\nready = 'soon'", "ready: expected kafka, port or a command"),
        ("name = 'x'\n[broker]\nstart = ['x']\nport = 1", "broker: expected a key, one of listeners, start"),
        ("name = 'x'\n[broker]\nstart = ['x']\nprepare = ['a']", "broker.prepare: expected a list of commands"),
        ("name = 'x'\n[broker]\nstart = ['x']\nfiles = {'../x' = ''}", "files: expected names inside the node's"),
        ("name = 'x'\nkeeps = 'nothing'\n[broker]\nstart = ['x']", "keeps: expected one of files, memory"),
        ("name = 'x'\nbrokers-max = 0\n[broker]\nstart = ['x']", "brokers-max: expected a whole number from 1 to 9"),
        (
            "name = 'x'\nstops-with = 143\n[broker]\nstart = ['x']",
            "stops-with: expected a list of whole numbers from 0",
        ),
        ("name = 'x'\nstops-with = []\n[broker]\nstart = ['x']", "stops-with: expected a list of whole numbers from 0"),
        ("name = 'x'\nstart-within = 0\n[broker]\nstart = ['x']", "start-within: expected a whole number from 1 to"),
        (
            "name = 'x'\nnot-back-after = ['kil']\n[broker]\nstart = ['x']",
            "not-back-after: expected a name, found 'kil'; did",
        ),
        (
            "name = 'x'\n[features]\n'a.version' = 'on'\n[broker]\nstart = ['x']",
            "features.a.version: expected a whole number from 0 to 32767, found 'on'",
        ),
        ("name = 'x'\nfeatures = 1\n[broker]\nstart = ['x']", "features: expected a table, found 1"),
        ("name = 'x'\nsession-ms-min = 1.5\n[broker]\nstart = ['x']", "session-ms-min: expected a whole number from 1"),
        ("name = 'x'\n[broker]\nstart = ['x']\nonce = ['a']", "broker.once: expected a list of commands"),
        ("name = 'x'\nwithout = ['gravity']\n[broker]\nstart = ['x']", "without: expected one of process, "),
        ("name = 'x'\n[broker]\nstart = ['x']\n[defaults]\nseed = 1", "defaults: expected a key, one of name"),
        ("name = 'x'\n[broker]\nstart = ['no-such-broker']", "expected the program 'no-such-broker', found: none"),
        ("name = 'x'\n[broker]\nstart = ['true', '{{ nod.id }}']", "'nod' is undefined"),
        ("name = 'x'\n[broker]\nstart = ['true', '{{ bind.RPC }}']", "has no attribute 'RPC'"),
        ("name = 'x'\n[broker]\nstart = ['true', '{% if %}']", "expected a template that can be filled in"),
        ("name = 'x'\ninstall = 'get x'\n[broker]\nstart = ['x-y-z']", "found: none of that name; get x"),
        (
            "name = 'x'\n[values]\na = ['sh', '-c', 'echo no >&2; exit 3']\n[broker]\nstart = ['true']",
            "a value, found: no",
        ),
        ("name = 'x'\n[values]\na = ['no-such-program']\n[broker]\nstart = ['true']", "values.a: expected to run"),
        ("name = 'x'\nimage = 'x:1'\n[broker]", "found only the image x:1; add --environment docker"),
        ("name = [", "expected a system definition as TOML"),
    ],
)
def test_what_is_wrong_with_a_definition_is_one_line_and_status_2(
    text: str, expected: str, written: Written, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "--system", str(written(text)), "--store", str(tmp_path / "store")])
    assert ended.value.code == ExitStatus.USAGE
    line = capsys.readouterr().err
    assert expected in line
    assert line.count("\n") == 1
    assert not (tmp_path / "store").exists(), "nothing was begun"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"brokers": 2}, "brokers: expected at most 1 for least, found 2"),
        ({"controllers": 1}, "controllers: expected 0, for it has none for least, found 1"),
        ({"controllers": 1, "combined": True}, "has no table [combined]; leave --combined out"),
        ({"flaws": "unclean-election"}, "they are of Harrow's own broker"),
        ({"vms": 1}, "vms: expected Harrow's own broker, the only system that Harrow runs in VMs, found "),
        ({"generation": "K3"}, "they are of Harrow's own broker"),
    ],
)
def test_a_specification_that_a_system_cannot_follow_is_refused(
    given: dict[str, object], expected: str, written: Written
) -> None:
    with pytest.raises(SpecError) as caught:
        made(written(MINIMAL), **given)
    assert expected in str(caught.value)


def test_harrows_own_broker_needs_a_controller() -> None:
    with pytest.raises(SpecError, match="controllers: expected at least 1"):
        make_system(resolve({"controllers": 0}, 1))


def test_a_flag_overrides_what_a_definition_presets(written: Written) -> None:
    path = written(MINIMAL.replace("brokers-max = 1", "").replace("[defaults]", "[defaults]\nrate = 50"))
    assert spec_for(path).rate == 50
    assert spec_for(path, rate=70.0).rate == 70
    assert spec_for(path, brokers=2).brokers == 2


def test_what_a_definition_presets_of_containers_is_for_containers_alone(written: Written) -> None:
    path = written(MINIMAL.replace("[defaults]", "[defaults]\nnode-memory = 900"))
    assert spec_for(path).node_memory == 512
    assert spec_for(path, environment="docker").node_memory == 900
    assert spec_for(path, environment="docker", node_memory=700).node_memory == 700
    with pytest.raises(SpecError, match="node-memory: expected the environment docker"):
        spec_for(path, node_memory=700)


def test_a_host_that_does_not_answer_is_one_line_and_status_2(
    written: Written, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("paramiko")
    inventory = tmp_path / "hosts.toml"
    inventory.write_text('[[host]]\naddress = "127.0.0.1:1"\n')
    with pytest.raises(SystemExit) as ended:
        cli.main(
            ["run", "--system", str(written(MINIMAL)), "--inventory", str(inventory), "--store", str(tmp_path / "s")]
        )
    assert ended.value.code == ExitStatus.USAGE
    line = capsys.readouterr().err
    assert "expected host 127.0.0.1:1 to answer SSH at 127.0.0.1:1" in line
    assert line.count("\n") == 1
    assert not (tmp_path / "s").exists(), "nothing was begun"


def test_a_ledger_of_what_was_synced_is_kept_by_our_own_broker_alone(written: Written) -> None:
    system = made(written(MINIMAL))
    assert "page-cache-loss" in system.cannot("namespaces", "page-cache")
    assert "page-cache-loss" not in system.cannot("namespaces", "fuse")


@pytest.mark.parametrize("own", [True, False], ids=["our own broker", "another"])
def test_no_page_cache_is_said_to_be_lost_where_the_broker_does_not_note_what_it_syncs(
    own: bool, written: Written, tmp_path: Path
) -> None:
    system = HarrowBroker(Spec(seed=1)) if own else made(written(MINIMAL))
    environment = LocalEnvironment(
        tmp_path, system, 1, 0 if not own else 1, "proxies", "page-cache", journal=Journal(tmp_path)
    )
    said = environment.mechanisms["page-cache-loss"]
    assert said.startswith("the broker notes what it has synced" if own else "none: ")


def test_proxies_work_only_for_a_lone_broker_that_advertises_them(written: Written) -> None:
    assert "network" in made(written(MINIMAL)).cannot("proxies", "fuse")
    lone = MINIMAL.replace('"60"', '"60", "{{ advertised.CLIENT }}"')
    assert "network" not in made(written(lone)).cannot("proxies", "fuse")
    many = made(written(lone.replace("brokers-max = 1", "")), brokers=2)
    assert "network" in many.cannot("proxies", "fuse")
    assert "network" not in many.cannot("namespaces", "fuse")


def test_what_a_definition_excludes_no_fault_can_do(written: Written, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(MINIMAL.replace("brokers-max", "without = ['clock', 'process']\nbrokers-max"))
    assert made(path).cannot("namespaces", "ext4") == {"clock", "process"}
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "--system", str(path), "--faults", "kill", "--network", "proxies"])
    assert ended.value.code == ExitStatus.USAGE
    assert "faults: kill needs process, which least does not go along with" in capsys.readouterr().err


def test_a_values_last_line_is_what_counts(written: Written, tmp_path: Path) -> None:
    text = MINIMAL.replace('"60"', '"{{ values.span }}"') + '[values]\nspan = ["sh", "-c", "echo a line; echo 61"]\n'
    system = made(written(text))
    plans = plans_of(system.spec, tmp_path)
    system.configure(plans[0], plans, Links())
    assert json.loads((plans[0].directory / CONFIG_NAME).read_text())["command"] == ["sleep", "61"]


def test_a_node_is_stopped_as_the_definition_says(written: Written, tmp_path: Path) -> None:
    system = made(written(MINIMAL + 'stop = ["kill", "-INT", "{{ pid }}"]\n'))
    plans = plans_of(system.spec, tmp_path)
    system.configure(plans[0], plans, Links())
    assert system.stop_command(plans[0], 4711) == ("kill", "-INT", "4711")
    plain = made(written(MINIMAL))
    plain.configure(plans[0], plans, Links())
    assert plain.stop_command(plans[0], 4711) is None


def test_files_of_log_are_those_that_match_the_latest_last(written: Written, tmp_path: Path) -> None:
    system = made(written(MINIMAL + 'logs = ["logs/*.log"]\n'))
    plan = plans_of(system.spec, tmp_path)[0]
    patterns = system.log_patterns(plan.role)
    (plan.directory / "logs").mkdir()
    for age, name in enumerate(("b.log", "a.log", "other.txt")):
        (plan.directory / "logs" / name).write_text(name)
        os.utime(plan.directory / "logs" / name, (age, age))
    assert [path.name for path in log_files(plan.directory, patterns)] == ["b.log", "a.log"]


def test_nothing_in_the_code_knows_the_brokers_that_are_defined() -> None:
    code = ["broker", "checkers", "harness", "history", "incidents", "nemesis", "reports", "workloads"]
    sources = [path for package in code for path in (ROOT / package).rglob("*.py")]
    assert len(sources) > 300
    names = ("noida", "calfkit", "tansu", "redpanda")
    assert not [path for path in sources if any(name in path.read_text().lower() for name in names)]


def test_a_status_of_a_signal_stands_for_the_death_by_it_too(tmp_path: Path) -> None:
    file = tmp_path / "jvm.toml"
    file.write_text("name = 'jvm'\nstops-with = [0, 128, 143]\n[broker]\nstart = ['x']")
    assert load(file).stops_with == {0, 128, 143, -signal.SIGTERM}
