import json
import sys

import pytest

from workloads.clients import client_named, client_names
from workloads.clients.base import ClientMissingError, Partition
from workloads.config import WorkerConfigError, config_from, read_config
from workloads.worker import UnknownWorkloadError, workload_named

LEAST = {
    "run_id": "r",
    "origin_ns": 1,
    "worker": 0,
    "workers": 1,
    "history": "history",
    "bootstrap": ["127.0.0.1:9092"],
    "topics": {"chaos": 2},
}


def test_a_minimal_configuration_has_a_default_for_everything_else(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LEAST))
    config = read_config(path)
    assert config.partitions == [Partition("chaos", 0), Partition("chaos", 1)]
    assert (config.acks, config.idempotence, config.workload) == (-1, True, "log")
    assert config.client_settings.bootstrap == ("127.0.0.1:9092",)


@pytest.mark.parametrize(("value", "meant"), [("all", -1), (-1, -1), (1, 1), ("0", 0)])
def test_acks_may_be_written_as_in_kafka(value, meant):
    assert config_from(LEAST | {"acks": value, "idempotence": False}).acks == meant


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colour": 1}, "unknown fields colour"),
        ({"rate": "fast"}, "rate must be int or float, found 'fast'"),
        ({"rate": 0}, "rate must be positive"),
        ({"rate": True}, "rate must be int or float"),
        ({"worker": 1}, "worker must be below workers"),
        ({"acks": 2}, "acks must be all, 0 or 1, found 2"),
        ({"acks": 1}, "idempotence needs acks all"),
        ({"batch_min": 3, "batch_max": 2}, "batch_min and batch_max"),
        ({"topics": {}}, "topics must have partitions"),
        ({"bootstrap": []}, "bootstrap must name a broker"),
        ({"producers": 0, "readers": 0}, "producers and readers"),
        ({"session_timeout_ms": 0}, "session_timeout_ms must be positive"),
        ({"delivery_timeout_ms": 10}, "delivery_timeout_ms must not be below"),
    ],
)
def test_invalid_configurations_are_refused_in_one_line(changes, message):
    with pytest.raises(WorkerConfigError, match=message) as caught:
        config_from(LEAST | changes)
    assert "\n" not in str(caught.value)


def test_missing_fields_are_named():
    with pytest.raises(WorkerConfigError, match="the configuration lacks run_id, topics"):
        config_from({key: value for key, value in LEAST.items() if key not in ("run_id", "topics")})


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_a_file_that_holds_no_configuration_is_refused(tmp_path, text):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(WorkerConfigError):
        read_config(path)


def test_an_absent_file_is_refused(tmp_path):
    with pytest.raises(WorkerConfigError, match="cannot read the configuration"):
        read_config(tmp_path / "absent.json")


def test_an_unknown_workload_is_answered_with_those_that_exist():
    with pytest.raises(UnknownWorkloadError, match=r"expected a workload, one of log, .* found 'lag'"):
        workload_named("lag")


def test_an_unknown_client_is_answered_with_those_that_exist():
    with pytest.raises(ClientMissingError, match=r"expected a client, one of kafka-python, .* found 'curl'"):
        client_named("curl")
    assert client_names()[0] == "kafka-python"


def test_a_client_that_is_not_installed_says_which_package_it_is(monkeypatch):
    monkeypatch.setitem(sys.modules, "kafka", None)
    for name in [name for name in sys.modules if name.startswith("workloads.clients.kafka_python")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ClientMissingError, match=r"kafka-python is not installed ") as caught:
        client_named("kafka-python")
    assert caught.value.distribution == "kafka-python"
