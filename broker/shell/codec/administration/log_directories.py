"""Codec of DescribeLogDirs (35), versions 1 to 4. Volume sizes are not reported (-1)."""

from __future__ import annotations

from kafka.protocol.admin import DescribeLogDirsRequest as WireRequest
from kafka.protocol.admin import DescribeLogDirsResponse as WireResponse

from broker.core.messages import (
    DescribedLog,
    DescribedLogDirectory,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from broker.shell.codec import schema
from broker.shell.codec.base import Codec
from broker.shell.codec.grouping import by_topic
from broker.shell.codec.wire import Parts


def _decode_request(data: bytes, position: int, version: int) -> DescribeLogDirsRequest:
    wire = schema.decode(WireRequest, data, position, version)
    if wire.topics is None:
        return DescribeLogDirsRequest(None)
    return DescribeLogDirsRequest(
        tuple(
            DescribeLogDirsPartition(topic.topic, partition)
            for topic in wire.topics
            for partition in schema.elements(topic.partitions)
        )
    )


def _encode_request(request: DescribeLogDirsRequest, version: int) -> Parts:
    if request.partitions is None:
        return schema.encode(WireRequest, version, topics=None)
    topics = [
        WireRequest.DescribableLogDirTopic(version=version, topic=topic, partitions=partitions)
        for topic, partitions in by_topic(request.partitions)
    ]
    return schema.encode(WireRequest, version, topics=topics)


def _decode_response(data: bytes, position: int, version: int) -> DescribeLogDirsResponse:
    wire = schema.decode(WireResponse, data, position, version)
    return DescribeLogDirsResponse(
        tuple(
            DescribedLogDirectory(
                result.error_code,
                result.log_dir,
                tuple(
                    DescribedLog(topic.name, each.partition_index, each.partition_size, each.offset_lag)
                    for topic in schema.elements(result.topics)
                    for each in schema.elements(topic.partitions)
                ),
            )
            for result in schema.elements(wire.results)
        )
    )


def _encode_response(response: DescribeLogDirsResponse, version: int) -> Parts:
    results = [
        WireResponse.DescribeLogDirsResult(
            version=version,
            error_code=directory.error_code,
            log_dir=directory.path,
            topics=_topics(directory, version),
        )
        for directory in response.directories
    ]
    return schema.encode(WireResponse, version, results=results)


def _topics(directory: DescribedLogDirectory, version: int) -> list[schema.WireMessage]:
    topic_class = WireResponse.DescribeLogDirsResult.DescribeLogDirsTopic
    return [
        topic_class(
            version=version,
            name=topic,
            partitions=[
                topic_class.DescribeLogDirsPartition(
                    version=version,
                    partition_index=each.partition,
                    partition_size=each.size,
                    offset_lag=each.offset_lag,
                )
                for each in logs
            ],
        )
        for topic, logs in by_topic((each.topic, each) for each in directory.logs)
    ]


DESCRIBE_LOG_DIRS = Codec(
    api_key=35,
    name="DescribeLogDirs",
    versions=(1, 4),
    flexible_from=2,
    request_type=DescribeLogDirsRequest,
    decode_request=_decode_request,
    encode_request=_encode_request,
    decode_response=_decode_response,
    encode_response=_encode_response,
)
