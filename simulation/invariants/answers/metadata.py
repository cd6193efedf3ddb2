"""Checks that what a broker tells clients of the cluster is what the metadata that it has reached say (P-35)."""

from __future__ import annotations

from typing import cast

from broker.core.configuration.settings import CLIENT_LISTENER
from broker.core.messages import MetadataResponse
from broker.core.messages.clients import MetadataPartition, MetadataTopic
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import BrokerImage
from broker.core.metadata.records import PartitionState
from simulation.invariants.knowledge import BrokerMirror, Knowledge, Version
from simulation.invariants.properties import Violation


def answered(known: Knowledge, broker: BrokerMirror, response: MetadataResponse) -> None:
    """P-35 for an answer to Metadata, which is given in the step of its request."""
    version = known.versions.get(broker.image_end)
    if version is None:
        return
    wrong = _wrong_brokers(response, version)
    for topic in response.topics:
        wrong = wrong or _wrong_topic(topic, version)
    if wrong:
        raise Violation(
            "P-35", f"broker {broker.broker_id} tells a client {wrong}, by the metadata up to {broker.image_end}"
        )


def _wrong_brokers(response: MetadataResponse, version: Version) -> str:
    members = [one for one in version.brokers.values() if isinstance(one, BrokerImage)]
    expected = {one.broker_id: one.address(CLIENT_LISTENER) for one in members if not one.fenced}
    said = {one.node_id: (one.host, one.port) for one in response.brokers}
    reachable = {broker_id: address for broker_id, address in expected.items() if address is not None}
    return "" if said == reachable else f"of the brokers {said}, which are {reachable}"


def _wrong_topic(said: MetadataTopic, version: Version) -> str:
    ids = {topic_id: name for name, (topic_id, _, _) in version.topics.items()}
    name = said.name or ids.get(said.topic_id, "")
    topic_id, states, _ = version.topics.get(name, ("", {}, {}))
    if said.error_code != ErrorCode.NONE:
        return f"{ErrorCode(said.error_code).name} of topic {name}, which is there" if topic_id else ""
    if not topic_id or said.topic_id != topic_id or {one.partition for one in said.partitions} != states.keys():
        return f"of topic {said.name} {said}, which has the id {topic_id!r} and the partitions {sorted(states)}"
    for part in said.partitions:
        expected = _expected(part.partition, cast("PartitionState", states[part.partition]), version)
        if part != expected:
            return f"of {name} {part}, which is {expected}"
    return ""


def _expected(number: int, state: PartitionState, version: Version) -> MetadataPartition:
    leader = version.brokers.get(state.leader)
    leads = isinstance(leader, BrokerImage) and not leader.fenced
    active = {one.broker_id for one in version.brokers.values() if isinstance(one, BrokerImage) and one.active}
    return MetadataPartition(
        ErrorCode.NONE if leads else ErrorCode.LEADER_NOT_AVAILABLE,
        number,
        state.leader if leads else -1,
        state.leader_epoch,
        state.replicas,
        state.isr,
        tuple(one for one in state.replicas if one in state.offline or one not in active),
    )
