"""The metadata image: the state after all records up to an offset. Broker and controller apply the same records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from broker.core.messages import Listener
from broker.core.metadata.records import (
    BrokerChanged,
    BrokerConfigChanged,
    BrokerRegistered,
    BrokerUnregistered,
    ConfigChanged,
    MetadataRecord,
    PartitionSet,
    PartitionState,
    ProducerIdsAllocated,
    TopicCreated,
    TopicDeleted,
    change_in,
)
from broker.core.records import iterate_headers


class BrokerImage(NamedTuple):
    """A registered broker. `epoch` is the offset of its registration record (RG-4)."""

    broker_id: int
    epoch: int
    incarnation_id: str
    listeners: tuple[Listener, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool

    @property
    def active(self) -> bool:
        """May lead and be in an ISR: registered, unfenced, not shutting down (§13)."""
        return not self.fenced and not self.in_controlled_shutdown

    def address(self, listener: str) -> tuple[str, int] | None:
        """Host and port of a listener."""
        for candidate in self.listeners:
            if candidate.name == listener:
                return candidate.host, candidate.port
        return None


@dataclass(slots=True)
class TopicImage:
    """A topic and its partitions, by number."""

    name: str
    topic_id: str
    partitions: dict[int, PartitionState] = field(default_factory=dict)
    configs: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Image:
    """The state after all metadata records up to `end_offset` (exclusive)."""

    end_offset: int = 0
    brokers: dict[int, BrokerImage] = field(default_factory=dict)
    topics: dict[str, TopicImage] = field(default_factory=dict)
    topic_names: dict[str, str] = field(default_factory=dict)  # topic id -> name
    configs: dict[str, str] = field(default_factory=dict)
    """Settings of all nodes: they come before those of their files."""

    broker_configs: dict[int, dict[str, str]] = field(default_factory=dict)
    """Settings of single brokers, which come before those of all."""

    next_producer_id: int = 0

    def apply(self, offset: int, record: MetadataRecord) -> None:
        """Apply the record at `offset`. Records come in order, each once."""
        match record:
            case BrokerRegistered():
                self.brokers[record.broker_id] = BrokerImage(
                    record.broker_id,
                    offset if record.epoch is None else record.epoch,
                    record.incarnation_id,
                    record.listeners,
                    record.rack,
                    fenced=True,
                    in_controlled_shutdown=False,
                )
            case BrokerChanged():
                self.brokers[record.broker_id] = self.brokers[record.broker_id]._replace(
                    fenced=record.fenced, in_controlled_shutdown=record.in_controlled_shutdown
                )
            case BrokerUnregistered():
                del self.brokers[record.broker_id]
            case TopicCreated():
                self.topics[record.name] = TopicImage(record.name, record.topic_id)
                self.topic_names[record.topic_id] = record.name
            case TopicDeleted():
                del self.topics[self.topic_names.pop(record.topic_id)]
            case PartitionSet():
                self.topics[self.topic_names[record.topic_id]].partitions[record.partition] = record.state
            case ConfigChanged():
                _put(self.topics[record.topic].configs if record.topic else self.configs, record.key, record.value)
            case BrokerConfigChanged():
                _put(self.broker_configs.setdefault(record.broker_id, {}), record.key, record.value)
                if not self.broker_configs[record.broker_id]:
                    del self.broker_configs[record.broker_id]
            case ProducerIdsAllocated():
                self.next_producer_id = record.next_producer_id
        self.end_offset = offset + 1

    def apply_batches(self, batches: bytes) -> bool:
        """Apply whole batches of the metadata log from the image's end; returns whether any were new."""
        before = self.end_offset
        for position, header in iterate_headers(batches):
            if header.base_offset < self.end_offset:
                continue
            if not header.is_control:
                for offset, record in change_in(batches[position : position + header.size]):
                    self.apply(offset, record)
            self.end_offset = header.last_offset + 1
        return self.end_offset > before

    def to_records(self) -> list[MetadataRecord]:
        """Records that recreate this image, for a snapshot."""
        records: list[MetadataRecord] = []
        for broker in self.brokers.values():
            records.append(
                BrokerRegistered(broker.broker_id, broker.incarnation_id, broker.listeners, broker.rack, broker.epoch)
            )
            records.append(BrokerChanged(broker.broker_id, broker.fenced, broker.in_controlled_shutdown))
        records += [ConfigChanged("", key, value) for key, value in self.configs.items()]
        for broker_id, configs in self.broker_configs.items():
            records += [BrokerConfigChanged(broker_id, key, value) for key, value in configs.items()]
        for topic in self.topics.values():
            records.append(TopicCreated(topic.name, topic.topic_id))
            records += [ConfigChanged(topic.name, key, value) for key, value in topic.configs.items()]
            records += [PartitionSet(topic.topic_id, number, state) for number, state in topic.partitions.items()]
        records.append(ProducerIdsAllocated(self.next_producer_id))
        return records

    def partition(self, topic: str, partition: int) -> PartitionState | None:
        """State of a partition, None if there is none."""
        found = self.topics.get(topic)
        return found.partitions.get(partition) if found else None

    def is_active(self, broker_id: int) -> bool:
        """Whether a broker is registered, unfenced and not shutting down (§13)."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.active

    def broker_epoch(self, broker_id: int) -> int:
        """Epoch of a broker's present registration, -1 if there is none."""
        broker = self.brokers.get(broker_id)
        return broker.epoch if broker else -1

    def setting(self, topic: str, key: str) -> str | None:
        """A topic's setting, or else the cluster's; None if neither is in the metadata."""
        found = self.topics.get(topic)
        return found.configs[key] if found and key in found.configs else self.configs.get(key)

    def min_insync_replicas(self, topic: str, default: int) -> int:
        """The configured `min.insync.replicas` of a topic, as the produce check uses it (PR-2).

        The cluster's is in the metadata, so that all nodes use the same; `default` is a node's own until it is there.
        """
        return int(self.setting(topic, "min.insync.replicas") or default)

    def leads_any(self, broker_id: int) -> bool:
        """Whether a broker leads at least one partition (HB-2)."""
        return any(state.leader == broker_id for topic in self.topics.values() for state in topic.partitions.values())


def _put(configs: dict[str, str], key: str, value: str | None) -> None:
    if value is None:
        configs.pop(key, None)
    else:
        configs[key] = value
