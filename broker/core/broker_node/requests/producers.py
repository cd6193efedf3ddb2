"""Describes the idempotent producers of a partition (DescribeProducers, KIP-664)."""

from __future__ import annotations

from broker.core.broker_node import directories
from broker.core.broker_node.state import BrokerState
from broker.core.log.log import Log
from broker.core.log.producer_state import ProducerState
from broker.core.messages import (
    DescribedProducer,
    DescribedProducers,
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.ports.files import StorageError

_UNKNOWN = -1


def describe(broker: BrokerState, request: DescribeProducersRequest) -> DescribeProducersResponse:
    """DescribeProducers (61), from the log of any replica, leader or not, as in Kafka."""
    return DescribeProducersResponse(tuple(_partition(broker, *asked) for asked in request.partitions))


def _partition(broker: BrokerState, topic: str, partition: int) -> DescribedProducers:
    replica = broker.replicas.get((topic, partition))
    if replica is None:
        return DescribedProducers(topic, partition, broker.absence_error(topic, partition))
    try:
        producers = tuple(
            _producer(replica.log, producer_id, state)
            for producer_id, state in sorted(replica.log.producers.states.items())
        )
    except StorageError as failure:
        directories.fail(broker, failure)
        return DescribedProducers(topic, partition, ErrorCode.KAFKA_STORAGE_ERROR)
    return DescribedProducers(topic, partition, ErrorCode.NONE, None, producers)


def _producer(log: Log, producer_id: int, state: ProducerState) -> DescribedProducer:
    """The state keeps no times: that of the last batch is in the log, as long as the batch itself."""
    newest = state.batches[-1]
    header = log.batch_at(newest.last_offset)  # its beginning may be deleted
    found = header is not None and header.producer_id == producer_id
    timestamp = header.max_timestamp if header is not None and found else _UNKNOWN
    return DescribedProducer(producer_id, state.epoch, newest.last_sequence, timestamp)
