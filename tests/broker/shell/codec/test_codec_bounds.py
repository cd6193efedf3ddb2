"""Requests that would take too long to read are refused, whatever else is right about them."""

from __future__ import annotations

import struct

import pytest

from broker.core.messages import (
    FetchPartition,
    FetchRequest,
    MetadataRequest,
    ProducePartition,
    ProduceRequest,
)
from broker.core.messages.groups import DescribeGroupsRequest
from broker.shell.codec import api_versions, frames, wire
from broker.shell.codec.apis import CODECS, codec_of
from broker.shell.codec.wire import ELEMENTS_MAX, DecodeError


def read(request, version, data=None):
    codec = codec_of(request)
    frame = frames.request_frame(codec, version, 1, "c", request)[4:] if data is None else data
    header, position = frames.read_request_header(frame)
    return frames.read_request(codec, header, frame, position)


@pytest.mark.parametrize(
    ("of", "version"),
    [
        (lambda count: MetadataRequest((("t", ""),) * count), 9),
        (lambda count: DescribeGroupsRequest(("g",) * count), 5),
        (lambda count: FetchRequest((FetchPartition("t", 0, 0, 1),) * count), 4),
        (lambda count: ProduceRequest(1, 1, (ProducePartition("t", 0, b""),) * count), 9),
    ],
)
def test_an_array_has_a_largest_length(of, version):
    most = of(ELEMENTS_MAX)
    assert read(most, version) == most
    with pytest.raises(DecodeError, match=f"at most {ELEMENTS_MAX}"):
        read(of(ELEMENTS_MAX + 1), version)


def test_the_topics_of_a_produce_request_are_counted_before_they_are_read():
    head = struct.pack(">hhih", 0, 9, 1, -1) + b"\0\0" + struct.pack(">hi", 1, 1)
    data = head + wire.unsigned_varint(ELEMENTS_MAX + 2) + b"\2t\1\0" * 10
    with pytest.raises(DecodeError, match=f"at most {ELEMENTS_MAX} topics"):
        read(ProduceRequest(1, 1, ()), 9, data)


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_only_a_request_with_records_may_be_large(codec):
    version = codec.versions[1]
    data = struct.pack(">hhih", codec.api_key, version, 1, -1) + bytes(1 << 20)
    header, position = frames.read_request_header(data)
    if codec.name == "Produce":
        frames.read_request(codec, header, data, position)
        return
    with pytest.raises(DecodeError, match="at most 1048576 bytes"):
        frames.read_request(codec, header, data, position)


def test_tagged_fields_are_counted():
    data = wire.unsigned_varint(ELEMENTS_MAX + 1) + b"\5\0" * (ELEMENTS_MAX + 1)
    with pytest.raises(DecodeError, match="tagged fields"):
        wire.skip_tags(data, 0)


def test_an_api_versions_request_is_small():
    frame = struct.pack(">hhih", 18, 0, 1, -1) + bytes(1 << 17)
    header, position = frames.read_request_header(frame)
    with pytest.raises(DecodeError, match="ApiVersions"):
        api_versions.answer(header, frame, position, CODECS)


def test_a_buffer_without_a_frame_keeps_no_memory():
    buffer = frames.FrameBuffer(1 << 21)
    buffer.feed((1 << 20).to_bytes(4) + bytes(1 << 20))
    assert buffer.take() == bytes(1 << 20)
    assert len(buffer) == 0
    assert len(buffer._buffer) == 0
