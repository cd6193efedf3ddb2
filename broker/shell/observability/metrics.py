"""Renders `GET /metrics`: a node's metrics in Prometheus' text format, version 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from broker.core.controller.losses import Cause
from broker.core.ports.runtime import Node
from broker.core.quorum.state import QuorumRole
from broker.shell.files.fsyncs import Fsyncs
from broker.shell.observability.traffic import Traffic

_QUORUM_ROLES = tuple(role.value for role in QuorumRole)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, object]
Sample = tuple[Labels, float]


class Metric(NamedTuple):
    """One metric with all its samples. `kind` is Prometheus' type."""

    name: str
    kind: str
    help: str
    samples: Iterable[Sample]


def render(node: Node, traffic: Traffic, fsyncs: Fsyncs) -> str:
    """All current metrics of a node."""
    metrics = (*_of_traffic(traffic), *_of_fsyncs(fsyncs), *_of_node(node.describe()))
    return "".join(line for metric in metrics for line in _lines(metric))


def _of_traffic(traffic: Traffic) -> Iterator[Metric]:
    requests = (({"api": api, "error": error}, count) for (api, error), count in sorted(traffic.requests.items()))
    yield Metric("harrow_requests_total", "counter", "Requests answered, by the first error in the answer.", requests)
    incidents = "Requests refused because serving them raised an error: bugs."
    yield Metric("harrow_incidents_total", "counter", incidents, [({}, traffic.incidents)])
    yield Metric("harrow_connections", "gauge", "Open connections.", _by_listener(traffic.connections))
    yield Metric("harrow_bytes_in_total", "counter", "Bytes received.", _by_listener(traffic.bytes_in))
    yield Metric("harrow_bytes_out_total", "counter", "Bytes sent.", _by_listener(traffic.bytes_out))


def _of_fsyncs(fsyncs: Fsyncs) -> Iterator[Metric]:
    count, seconds = fsyncs.totals()
    yield Metric("harrow_fsyncs_total", "counter", "Files and directories synced.", [({}, count)])
    yield Metric("harrow_fsync_seconds_total", "counter", "Time spent in syncing them.", [({}, seconds)])


def _of_node(state: Mapping[str, Any]) -> Iterator[Metric]:
    partitions = state.get("partitions", [])
    replicas = [each for each in partitions if "log_end" in each]
    led = [each for each in replicas if each["role"] == "leader"]
    yield _gauge("harrow_metadata_offset", "Last metadata record applied.", [({}, state.get("metadata_offset", -1))])
    yield _per_partition("harrow_partition_log_end", "Log end offset.", replicas, "log_end")
    yield _per_partition("harrow_partition_high_watermark", "High watermark.", replicas, "high_watermark")
    yield _per_partition("harrow_partition_leader_epoch", "Leader epoch.", partitions, "leader_epoch")
    sizes = [(_labels(each), len(each["isr"])) for each in partitions]
    yield _gauge("harrow_partition_isr_size", "Replicas in sync.", sizes)
    # An election raises the epoch by one, and a partition begins with epoch 0.
    elections = sum(max(0, each["leader_epoch"]) for each in partitions)
    text = "Elections of leaders seen: the leader epochs of present partitions, added up."
    yield Metric("harrow_leader_elections_total", "counter", text, [({}, elections)])
    if "produces_waiting" in state:
        under = [each for each in led if len(each["isr"]) < len(each["replicas"])]
        yield _gauge("harrow_under_replicated_partitions", "Led here, with replicas out of sync.", [({}, len(under))])
        below = [each for each in led if len(each["isr"]) < each["min_isr"]]
        yield _gauge("harrow_under_min_isr_partitions", "Led here, not writable with acks=all.", [({}, len(below))])
        waiting = [
            ({"kind": "produce"}, state["produces_waiting"]),
            ({"kind": "fetch"}, state["fetches_waiting"]),
        ]
        yield _gauge("harrow_purgatory_size", "Requests that wait for something to happen.", waiting)
        yield _gauge("harrow_fetch_sessions", "Fetch sessions.", [({}, state["fetch_sessions"])])
    quorum = state.get("controller_state", state)
    if "quorum_role" in quorum:
        yield from _of_quorum(quorum)


def _of_quorum(state: Mapping[str, Any]) -> Iterator[Metric]:
    roles = [({"role": role}, int(role == state["quorum_role"])) for role in _QUORUM_ROLES]
    yield _gauge("harrow_quorum_role", "1 for the controller's role in the quorum, 0 for the others.", roles)
    yield _gauge("harrow_quorum_epoch", "Epoch of the quorum.", [({}, state["epoch"])])
    yield _gauge("harrow_quorum_high_watermark", "High watermark of the metadata log.", [({}, state["high_watermark"])])
    yield _gauge("harrow_quorum_log_end", "Log end offset of the metadata log.", [({}, state["log_end"])])
    elections = state["unclean_elections"]
    text = "Unclean elections that this controller decided: each may have lost acknowledged records."
    by_cause = [
        ({"cause": cause.value}, sum(one["count"] for one in elections if one["cause"] == cause)) for cause in Cause
    ]
    yield Metric("harrow_unclean_elections_total", "counter", text, by_cause)
    by_partition: dict[tuple[str, int], int] = {}
    for one in elections:
        key = (one["topic"], one["partition"])
        by_partition[key] = by_partition.get(key, 0) + one["count"]
    losses = [({"topic": topic, "partition": number}, count) for (topic, number), count in by_partition.items()]
    yield Metric("harrow_potential_losses_total", "counter", "The same by partition.", losses)
    fenced = sum(broker["fenced"] for broker in state["brokers"])
    yield _gauge("harrow_fenced_brokers", "Registered brokers that are fenced.", [({}, fenced)])


def _gauge(name: str, help_text: str, samples: Iterable[Sample]) -> Metric:
    return Metric(name, "gauge", help_text, samples)


def _per_partition(name: str, help_text: str, partitions: Iterable[Mapping[str, Any]], field: str) -> Metric:
    return _gauge(name, help_text, [(_labels(each), each[field]) for each in partitions])


def _labels(partition: Mapping[str, Any]) -> Labels:
    return {"topic": partition["topic"], "partition": partition["partition"]}


def _by_listener(counts: Mapping[str, int]) -> list[Sample]:
    return [({"listener": listener}, count) for listener, count in sorted(counts.items())]


def _lines(metric: Metric) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.kind}\n"
    for labels, value in metric.samples:
        rendered = ",".join(f'{name}="{_escaped(str(label))}"' for name, label in labels.items())
        yield f"{metric.name}{{{rendered}}} {value}\n" if rendered else f"{metric.name} {value}\n"


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
