"""Codec of DescribeProducers (61) and UnregisterBroker (64), version 0 of each."""

from __future__ import annotations

from kafka.protocol.admin import DescribeProducersRequest as WireProducersRequest
from kafka.protocol.admin import DescribeProducersResponse as WireProducersResponse

from broker.core.messages import (
    DescribedProducer,
    DescribedProducers,
    DescribeProducersRequest,
    DescribeProducersResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from broker.shell.codec.mapping import by_topic, define, many, mapped, message, record, row

_ASKED = by_topic(row("topic", "partition_indexes"), "partition_indexes")
_DESCRIBED = record(
    DescribedProducers,
    partition="partition_index",
    producers=("active_producers", many(record(DescribedProducer))),
)

DESCRIBE_PRODUCERS = mapped(
    (0, 0),
    message(WireProducersRequest, record(DescribeProducersRequest, partitions=("topics", _ASKED))),
    message(WireProducersResponse, record(DescribeProducersResponse, partitions=("topics", by_topic(_DESCRIBED)))),
)

UNREGISTER_BROKER = mapped(
    (0, 0),
    message(define("brokers", "UnregisterBrokerRequest"), record(UnregisterBrokerRequest)),
    message(define("brokers", "UnregisterBrokerResponse"), record(UnregisterBrokerResponse)),
)
