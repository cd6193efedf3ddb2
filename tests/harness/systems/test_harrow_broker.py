"""Harrow's own broker as a system under test: settings that it reads, answers that it gives."""

from __future__ import annotations

import base64
import json
import socketserver
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from broker.shell.properties import load
from common.names import SpecError
from harness.environments.base import NodePlan
from harness.spec.spec import Spec
from harness.systems.admin_endpoint import NoAnswer, get_json
from harness.systems.own.harrow_broker import SETTINGS_NAME, HarrowBroker
from simulation.scenario.overrides import check_names, flaws

Answers = Mapping[str, object]


class Links:
    """Addresses with a proxy per pair: who asks decides where to."""

    def bind(self, node_id: int, listener: str) -> tuple[str, int]:
        return f"10.0.0.{node_id}", {"CLIENT": 1, "BROKER": 2, "CONTROLLER": 3}[listener] * 1000

    def reach(self, source: int, node_id: int, listener: str) -> tuple[str, int]:
        return "127.0.0.1", self.bind(node_id, listener)[1] + source


def plan(directory: Path, node_id: int = 1, storage: str = "files") -> NodePlan:
    role = "controller" if node_id >= 100 else "broker"
    return NodePlan(node_id, role, directory, directory / "data", directory / f"{node_id}.sock", storage)


def plans(directory: Path) -> list[NodePlan]:
    return [plan(directory, node_id) for node_id in (1, 2, 3, 100)]


def configured(directory: Path, spec: Spec, node_id: int = 1):
    system = HarrowBroker(spec)
    everyone = plans(directory)
    mine = next(each for each in everyone if each.node_id == node_id)
    system.configure(mine, everyone, Links())
    return load(directory / SETTINGS_NAME)


def test_the_broker_reads_the_settings_as_they_were_meant(tmp_path: Path) -> None:
    spec = Spec(seed=1, min_insync_replicas=2, unclean_election=True, flaws=("unclean-election",))
    settings = configured(tmp_path, spec)
    assert settings.node_id == 1
    assert settings.roles == ("broker",)
    assert settings.min_insync_replicas == 2
    assert settings.unclean_leader_election_enable
    assert not settings.auto_create_topics_enable
    assert settings.flaws == ("unclean-election",)
    assert settings.broker_session_timeout_ms == 3000
    assert settings.replica_lag_time_max_ms == 3000
    assert settings.admin_socket == str(tmp_path / "1.sock")
    assert settings.log_dirs == (str(tmp_path / "data"),)


def test_nodes_are_reached_where_this_node_reaches_them(tmp_path: Path) -> None:
    settings = configured(tmp_path, Spec(seed=1))
    assert dict(settings.voters) == {100: ("127.0.0.1", 3001)}
    assert settings.peer_addresses[2] == ("127.0.0.1", 2001)
    assert [(each.name, each.host, each.port) for each in settings.listeners] == [
        ("CLIENT", "10.0.0.1", 1000),
        ("BROKER", "10.0.0.1", 2000),
    ]


def test_clients_get_the_address_of_the_client_listener(tmp_path: Path) -> None:
    settings = configured(tmp_path, Spec(seed=1))
    assert ("CLIENT", "127.0.0.1", 1000) in [tuple(each) for each in settings.advertised_listeners]


def test_a_controller_has_its_own_listener_and_votes_for_itself(tmp_path: Path) -> None:
    settings = configured(tmp_path, Spec(seed=1), node_id=100)
    assert settings.is_controller
    assert [each.name for each in settings.listeners] == ["CONTROLLER"]
    assert dict(settings.voters) == {100: ("10.0.0.100", 3000)}


def test_a_node_of_both_roles_has_all_listeners_and_reaches_the_others_by_either(tmp_path: Path) -> None:
    everyone = [replace(plan(tmp_path, node_id), role=role) for node_id, role in ((1, "combined"), (2, "combined"))]
    everyone.append(plan(tmp_path, 3))
    HarrowBroker(Spec(seed=1, controllers=2, combined=True)).configure(everyone[0], everyone, Links())
    settings = load(tmp_path / SETTINGS_NAME)
    assert settings.roles == ("broker", "controller")
    assert [each.name for each in settings.listeners] == ["CLIENT", "BROKER", "CONTROLLER"]
    assert dict(settings.voters) == {1: ("10.0.0.1", 3000), 2: ("127.0.0.1", 3001)}
    assert settings.peer_addresses == {2: ("127.0.0.1", 2001), 3: ("127.0.0.1", 2001)}


@pytest.mark.parametrize(
    ("policy", "messages", "ms"), [("never", 0, 0), ("every-write", 1, 0), ("20", 20, 0), ("50ms", 0, 50)]
)
def test_every_flush_policy_becomes_kafkas_settings(tmp_path: Path, policy: str, messages: int, ms: int) -> None:
    settings = configured(tmp_path, Spec(seed=1, flush=policy))
    assert (settings.log_flush_interval_messages, settings.log_flush_interval_ms) == (messages, ms)


def test_the_storage_of_the_plan_is_passed_on(tmp_path: Path) -> None:
    HarrowBroker(Spec(seed=1)).configure(plan(tmp_path, storage="page-cache"), plans(tmp_path), Links())
    assert load(tmp_path / SETTINGS_NAME).storage == "page-cache"


def test_rules_that_the_broker_does_not_know_are_refused() -> None:
    check_names("K5", flaws())
    with pytest.raises(SpecError, match=r"flaw: expected the name of a flaw .* found 'gremlin'"):
        check_names("K5", ["gremlin"])
    with pytest.raises(SpecError, match=r"flaw: .* found 'unclean-elections'; did you mean unclean-election\?"):
        check_names("K5", ["unclean-elections"])
    with pytest.raises(SpecError, match=r"generation: expected one of .*K5, found 'V1'"):
        check_names("V1")


# --- answers ----------------------------------------------------------------------------------------------------------


@contextmanager
def answering(path: Path, answer) -> Iterator[None]:
    """A node's admin endpoint: `answer(path, query)` gives a body, as JSON unless it is bytes."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            body = answer(asked.path, {key: values[0] for key, values in parse_qs(asked.query).items()})
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(200 if body is not None else 404)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def address_string(self) -> str:
            return "unix"

        def log_message(self, *_arguments: object) -> None:
            pass

    with socketserver.ThreadingUnixStreamServer(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def partition(**values: object) -> dict[str, object]:
    return {
        "topic": "harrow",
        "partition": 0,
        "role": "leader",
        "leader": 1,
        "leader_epoch": 4,
        "partition_epoch": 9,
        "log_start": 0,
        "log_end": 7,
        "flushed": 3,
        "high_watermark": 6,
        "isr": [1, 2],
        "maximal_isr": [1, 2],
        "elr": [3],
        "replicas": [1, 2, 3],
        "epochs": [[0, 0]],
        **values,
    }


def state(*partitions: dict[str, object], **values: object) -> dict[str, object]:
    common = {"node": 1, "role": "broker", "lifecycle": "running", "broker_epoch": 77, "controller": 100}
    return {**common, "metadata_offset": 5, "partitions": list(partitions), **values}


SYSTEM = HarrowBroker(Spec(seed=1))


def test_a_broker_is_ready_when_it_says_that_it_runs(tmp_path: Path) -> None:
    reported = state(lifecycle="recovery")
    with answering(plan(tmp_path).socket, lambda *_: reported):
        assert not SYSTEM.is_ready(plan(tmp_path))
        reported["lifecycle"] = "running"
        assert SYSTEM.is_ready(plan(tmp_path))


def test_a_node_reports_the_version_that_it_runs_whatever_it_was_to_run(tmp_path: Path) -> None:
    assert SYSTEM.version_name == "K5"
    assert SYSTEM.version(plan(tmp_path)) is None, "nobody answers"
    with answering(plan(tmp_path).socket, lambda *_: state(generation="K4")):
        assert SYSTEM.version(plan(tmp_path)) == "K4"


def test_a_node_that_is_not_there_is_not_ready_and_believes_nothing(tmp_path: Path) -> None:
    assert not SYSTEM.is_ready(plan(tmp_path))
    assert SYSTEM.replicas(plan(tmp_path)) == ()
    assert SYSTEM.active_controller(plans(tmp_path)) is None
    assert SYSTEM.view(plans(tmp_path)) == []
    assert list(SYSTEM.log(plan(tmp_path), "harrow", 0)) == []


def test_a_replicas_state_is_read_with_its_broker_epoch(tmp_path: Path) -> None:
    with answering(plan(tmp_path).socket, lambda *_: state(partition())):
        (replica,) = SYSTEM.replicas(plan(tmp_path))
    assert (replica.role, replica.log_end, replica.high_watermark) == ("leader", 7, 6)
    assert (replica.isr, replica.elr, replica.broker_epoch) == ((1, 2), (3,), 77)


def test_the_controllers_view_is_believed_while_it_answers(tmp_path: Path) -> None:
    controllers = partition(leader=2, leader_epoch=5)
    with (
        answering(plan(tmp_path).socket, lambda *_: state(partition())),
        answering(plan(tmp_path, 100).socket, lambda *_: quorum_state(100, "leader", 100, 3, controllers)),
    ):
        (view,) = SYSTEM.view(plans(tmp_path))
        assert SYSTEM.active_controller(plans(tmp_path)) == 100
    assert (view.leader, view.leader_epoch, view.replicas) == (2, 5, (1, 2, 3))


def quorum_state(node: int, role: str, leader: int, epoch: int, *partitions: dict[str, object]) -> dict[str, object]:
    quorum = {"quorum_role": role, "epoch": epoch, "log_end": 40, "high_watermark": 38}
    return state(*partitions, **quorum, node=node, role="controller", controller=leader)


def test_of_two_that_believe_to_lead_the_quorum_the_newer_is_believed(tmp_path: Path) -> None:
    everyone = [plan(tmp_path, node) for node in (1, 100, 101, 102)]
    deposed = quorum_state(100, "leader", 100, 3, partition(leader=1, leader_epoch=4))
    active = quorum_state(101, "leader", 101, 4, partition(leader=2, leader_epoch=5))
    with (
        answering(everyone[1].socket, lambda *_: deposed),
        answering(everyone[2].socket, lambda *_: active),
    ):
        assert SYSTEM.active_controller(everyone) == 101
        assert [(each.controller, each.role, each.leader, each.epoch) for each in SYSTEM.voters(everyone)] == [
            (100, "leader", 100, 3),
            (101, "leader", 101, 4),
        ]
        (view,) = SYSTEM.view(everyone)
    assert view.leader == 2


def test_another_controller_is_queried_when_the_quorum_has_no_leader(tmp_path: Path) -> None:
    everyone = [plan(tmp_path, node) for node in (1, 100)]
    candidate = quorum_state(100, "candidate", -1, 5, partition(leader=3, leader_epoch=6))
    with (
        answering(everyone[0].socket, lambda *_: state(partition(leader=1, leader_epoch=4))),
        answering(everyone[1].socket, lambda *_: candidate),
    ):
        assert SYSTEM.active_controller(everyone) is None
        (view,) = SYSTEM.view(everyone)
        assert not SYSTEM.is_ready(everyone[1])
    assert view.leader == 3


def test_every_node_of_a_quorum_knows_all_voters(tmp_path: Path) -> None:
    everyone = [plan(tmp_path, node_id) for node_id in (1, 100, 101, 102)]
    for mine in everyone:
        HarrowBroker(Spec(seed=1, controllers=3)).configure(mine, everyone, Links())
        voters = load(tmp_path / SETTINGS_NAME).voters
        assert set(voters) == {100, 101, 102}
        own = {100: ("10.0.0.100", 3000)} if mine.node_id == 100 else {}
        assert own.items() <= voters.items()


def test_without_a_controller_the_newest_belief_of_the_brokers_counts(tmp_path: Path) -> None:
    with (
        answering(plan(tmp_path, 1).socket, lambda *_: state(partition(leader=1, leader_epoch=4))),
        answering(plan(tmp_path, 2).socket, lambda *_: state(partition(leader=2, leader_epoch=5))),
        answering(plan(tmp_path, 3).socket, lambda *_: state(partition(leader=1, leader_epoch=4))),
    ):
        (view,) = SYSTEM.view(plans(tmp_path))
    assert view.leader == 2


def test_a_log_is_read_page_by_page(tmp_path: Path) -> None:
    values = [base64.b64encode(b"v%d" % offset).decode() for offset in range(7)]
    records = [[offset, 2, 1000 + offset, None, value, None] for offset, value in enumerate(values)]
    asked = []

    def answer(path: str, query: dict[str, str]) -> object:
        asked.append((path, query["topic"], query["partition"], int(query["offset"])))
        page = [record for record in records if record[0] >= int(query["offset"])][:3]
        return {"log_start": 0, "log_end": 7, "high_watermark": 6, "records": page}

    with answering(plan(tmp_path).socket, answer):
        found = list(SYSTEM.log(plan(tmp_path), "harrow", 3))
    assert [(each.offset, each.leader_epoch, each.crc, each.value) for each in found] == [
        (offset, 2, 1000 + offset, b"v%d" % offset) for offset in range(7)
    ]
    assert asked == [("/log", "harrow", "3", offset) for offset in (0, 3, 6)]


def test_a_log_whose_tail_holds_no_record_ends_all_the_same(tmp_path: Path) -> None:
    page = {"log_start": 0, "log_end": 7, "high_watermark": 6, "records": []}
    with answering(plan(tmp_path).socket, lambda *_: page):
        assert list(SYSTEM.log(plan(tmp_path), "harrow", 0)) == []


@pytest.mark.parametrize("body", [b"not json", b"[1]", None])
def test_an_answer_that_makes_no_sense_is_no_answer(tmp_path: Path, body: bytes | None) -> None:
    with answering(tmp_path / "s", lambda *_: body), pytest.raises(NoAnswer):
        get_json(tmp_path / "s", "/state", 1.0)


def test_its_traits_say_what_the_planted_flaws_are() -> None:
    planted = HarrowBroker(Spec(seed=1, flaws=("ack-before-replication",))).traits.flaw_summaries
    assert planted == {"ack-before-replication": "acks=all is answered after the leader's own append"}
    assert SYSTEM.traits.flaw_summaries == {}
