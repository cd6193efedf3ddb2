"""A null where the schema forbids it is refused at the edge, in every field of every request."""

from __future__ import annotations

import struct
import typing

import pytest

from broker.core.messages import (
    CreateTopicsRequest,
    DescribeTopicPartitionsRequest,
    MetadataRequest,
    NewTopic,
    ProducePartition,
    ProduceRequest,
)
from broker.shell.codec import frames
from broker.shell.codec.apis import CODECS
from broker.shell.codec.validation import check_request
from broker.shell.codec.wire import DecodeError
from tests.broker.shell.codec.wire_samples import Sampler

EVERY_API = [pytest.param(codec, id=codec.name) for codec in CODECS]


def with_nulls(value, kind):
    """The value with a null in one place, for each place where the type allows none."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if type(None) in arguments:
        kinds = [one for one in arguments if one is not type(None)]
        yield from () if value is None else with_nulls_inside(value, kinds[0])
        return
    yield None
    yield from with_nulls_inside(value, kind)
    assert origin is None or origin is tuple, f"expected a type that is known here, found {kind}"


def with_nulls_inside(value, kind):
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if hasattr(kind, "_fields"):
        hints = typing.get_type_hints(kind)
        for name, item in zip(kind._fields, value, strict=True):
            for changed in with_nulls(item, hints[name]):
                yield value._replace(**{name: changed})
    elif origin is tuple:
        for at, item in enumerate(value):
            for changed in with_nulls(item, arguments[0] if arguments[-1] is Ellipsis else arguments[at]):
                yield (*value[:at], changed, *value[at + 1 :])


@pytest.mark.parametrize("codec", EVERY_API)
def test_requests_as_they_should_be_pass(codec):
    for seed in range(20):
        check_request(Sampler(seed).request(codec))


@pytest.mark.parametrize("codec", EVERY_API)
def test_a_null_in_any_place_that_allows_none_is_refused(codec):
    refused = 0
    for seed in range(10):
        request = Sampler(seed).request(codec)
        for changed in with_nulls_inside(request, codec.request_type):
            with pytest.raises(DecodeError, match="found null"):
                check_request(changed)
            refused += 1
    assert refused or not codec.request_type._fields


@pytest.mark.parametrize("codec", EVERY_API)
def test_a_frame_with_such_a_null_never_reaches_the_core(codec):
    """As far as a client can write one: our own encoders refuse some, and an array may be empty where it is null."""
    for seed in range(10):
        request = Sampler(seed).request(codec)
        for changed in with_nulls_inside(request, codec.request_type):
            for version in range(codec.versions[0], codec.versions[1] + 1):
                try:
                    frame = frames.request_frame(codec, version, 1, "c", changed)[4:]
                except (TypeError, ValueError, AttributeError, AssertionError, struct.error):
                    continue
                header, position = frames.read_request_header(frame)
                try:
                    decoded = frames.read_request(codec, header, frame, position)
                except DecodeError:
                    continue
                check_request(decoded)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (CreateTopicsRequest((NewTopic(None),)), "str as CreateTopicsRequest.topics.name, found null"),
        (ProduceRequest(-1, 1, (ProducePartition("t", 0, None),)), "bytes as ProduceRequest.partitions.records"),
        (MetadataRequest(((1, ""),)), "MetadataRequest.topics, found int"),
        (DescribeTopicPartitionsRequest((), 1, (None, 0)), "str as DescribeTopicPartitionsRequest.cursor, found null"),
        (DescribeTopicPartitionsRequest(None), "DescribeTopicPartitionsRequest.topics, found null"),
    ],
)
def test_the_message_names_the_place(request_, message):
    with pytest.raises(DecodeError, match=message):
        check_request(request_)
