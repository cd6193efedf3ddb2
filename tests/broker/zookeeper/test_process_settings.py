"""The settings of a process of the designs on ZooKeeper: what it needs, and what it is refused for, in one line."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from broker.core.messages import (
    CreateTopicsRequest,
    ElectLeadersRequest,
    FetchRequest,
    InitProducerIdRequest,
    MetadataRequest,
)
from broker.shell import main
from broker.shell.codec.apis import LISTENER_APIS, ZOOKEEPER_APIS, AnyCodec
from broker.shell.properties import SettingsError, parse

LINES = {
    "process.roles": "broker",
    "node.id": "1",
    "listeners": "CLIENT://127.0.0.1:1,BROKER://127.0.0.1:2",
    "log.dirs": "/nowhere",
    "harrow.generation": "zk-v1",
    "zookeeper.connect": "127.0.0.1:2181,[::1]:2182",
}


def text(**changes: str | None) -> str:
    """The lines of a node, with these changed; None: without it."""
    lines = LINES | {name.replace("_", "."): value for name, value in changes.items()}
    return "".join(f"{name}={value}\n" for name, value in lines.items() if value is not None)


def test_the_ensemble_is_a_list_of_addresses() -> None:
    assert parse(text()).zookeeper_connect == (("127.0.0.1", 2181), ("::1", 2182))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"zookeeper_connect": None}, "expected zookeeper.connect, found no such line; add it"),
        ({"zookeeper_connect": ""}, "zookeeper.connect: expected at least one host:port"),
        ({"zookeeper_connect": "nowhere"}, "zookeeper.connect: expected at least one host:port"),
        (
            {"controller_quorum_voters": "100@127.0.0.1:1"},
            "controller.quorum.voters: expected no such line for zk-v1, found one; remove it",
        ),
        (
            {"harrow_generation": "K5", "controller_quorum_voters": "100@127.0.0.1:1"},
            "zookeeper.connect: expected no such line for K5, found one; remove it",
        ),
        ({"process_roles": "controller"}, "process.roles: expected broker for zk-v1, found controller; correct it"),
    ],
)
def test_what_contradicts_the_design_is_one_line(changes: dict[str, str | None], line: str) -> None:
    with pytest.raises(SettingsError) as refused:
        parse(text(**changes))
    assert line in str(refused.value)


def status_of(file: Path) -> int:
    handlers = logging.getLogger().handlers[:]
    try:
        return main.run(str(file))
    finally:
        logging.getLogger().handlers[:] = handlers


def test_a_process_without_kazoo_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "node.properties"
    file.write_text(text(log_dirs=str(tmp_path / "log")))
    monkeypatch.setattr(main, "find_spec", lambda _: None)
    assert status_of(file) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert "expected kazoo for zk-v1, found none; pip install 'harrow[zookeeper]'" in line


def test_a_process_knows_the_switches_of_its_design(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "node.properties"
    file.write_text(text(log_dirs=str(tmp_path / "log"), harrow_flaws="unclean-election"))
    assert status_of(file) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "zk-ignores-expiry" in line


def codec_for(request: type, apis: dict[str, dict[int, AnyCodec]]) -> AnyCodec | None:
    return next((codec for codec in apis["CLIENT"].values() if codec.request_type is request), None)


@pytest.mark.parametrize("request_type", [FetchRequest, MetadataRequest, CreateTopicsRequest])
def test_requests_that_name_topics_by_id_are_not_offered(request_type: type) -> None:
    ours, usual = codec_for(request_type, ZOOKEEPER_APIS), codec_for(request_type, LISTENER_APIS)
    assert ours is not None
    assert usual is not None
    assert ours.versions[0] == usual.versions[0]
    assert ours.versions[1] == {FetchRequest: 12, MetadataRequest: 9, CreateTopicsRequest: 6}[request_type]


def test_the_requests_of_a_controller_come_to_the_listener_of_brokers_alone() -> None:
    names = {codec.name for codec in ZOOKEEPER_APIS["BROKER"].values()}
    orders = {"LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown", "OffsetForLeaderEpoch"}
    assert orders <= names
    assert not orders & {codec.name for codec in ZOOKEEPER_APIS["CLIENT"].values()}


@pytest.mark.parametrize("request_type", [InitProducerIdRequest, ElectLeadersRequest])
def test_what_came_later_is_not_offered(request_type: type) -> None:
    assert codec_for(request_type, LISTENER_APIS) is not None
    assert codec_for(request_type, ZOOKEEPER_APIS) is None
