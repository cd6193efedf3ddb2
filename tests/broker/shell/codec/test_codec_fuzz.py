"""Random bytes: a decoder either accepts them or raises `DecodeError`, nothing else, and quickly."""

from __future__ import annotations

import random

import pytest

from broker.core.messages import Coordinator
from broker.shell.codec import api_versions, frames
from broker.shell.codec.apis import CODECS
from broker.shell.codec.wire import DecodeError
from tests.broker.shell.codec.wire_samples import Sampler

MUTATIONS = 60


def versions(codec):
    return range(codec.versions[0], codec.versions[1] + 1)


EVERY_API = [pytest.param(codec, id=codec.name) for codec in CODECS]


def sample_frames(codec, version, seed):
    sampler = Sampler(seed)
    request, response = sampler.request(codec), sampler.response(codec)
    if codec.name == "FindCoordinator":
        request = request._replace(keys=("key",))
        response = response._replace(coordinators=(Coordinator("key", 0, 1, "localhost", 9092),))
    return (
        request,
        frames.request_frame(codec, version, 1, "c", request)[4:],
        frames.response_frame(codec, version, 1, response)[4:],
    )


def mutate(data, source):
    mutant = bytearray(data)
    for _ in range(source.choice((1, 1, 2, 5))):
        at = source.randrange(len(mutant) + 1)
        match source.randrange(5):
            case 0 if at < len(mutant):
                mutant[at] = source.choice((0, 1, 0x7F, 0x80, 0xFF, source.randrange(256)))
            case 1:
                mutant[at:at] = source.randbytes(source.choice((1, 4, 8)))
            case 2:
                del mutant[at : at + source.choice((1, 4, 8))]
            case 3:
                mutant[at : at + 4] = source.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0"))
            case _:
                del mutant[at:]
        if not mutant:
            break
    return bytes(mutant)


def read_request(codec, frame):
    header, position = frames.read_request_header(frame)
    return frames.read_request(codec, header, frame, position)


@pytest.mark.parametrize("codec", EVERY_API)
def test_mutated_requests_raise_nothing_but_the_decode_error(codec):
    source = random.Random(codec.api_key)
    refused = 0
    for version in versions(codec):
        _, frame, _ = sample_frames(codec, version, seed=version)
        for _ in range(MUTATIONS):
            try:
                read_request(codec, mutate(frame, source))
            except DecodeError:
                refused += 1
    assert refused > 0


@pytest.mark.parametrize("codec", EVERY_API)
def test_mutated_responses_raise_nothing_but_the_decode_error(codec):
    source = random.Random(codec.api_key)
    refused = 0
    for version in versions(codec):
        request, _, frame = sample_frames(codec, version, seed=version)
        for _ in range(MUTATIONS):
            try:
                frames.read_response(codec, version, 1, mutate(frame, source), request)
            except DecodeError:
                refused += 1
    assert refused > 0


@pytest.mark.parametrize("codec", EVERY_API)
def test_a_request_that_is_cut_short_is_refused_wherever_it_is_cut(codec):
    for version in versions(codec):
        _, frame, _ = sample_frames(codec, version, seed=3)
        for size in range(0, len(frame), max(1, len(frame) // 200)):
            with pytest.raises(DecodeError):
                read_request(codec, frame[:size])


def test_random_bytes_are_never_a_surprise():
    source = random.Random(1)
    refusals = []
    for _ in range(3000):
        codec = source.choice(CODECS)
        version = source.choice(versions(codec))
        head = codec.api_key.to_bytes(2) + version.to_bytes(2) + bytes(4) + b"\xff\xff"
        frame = head + source.randbytes(source.randrange(80))
        try:
            read_request(codec, frame)
        except DecodeError as error:
            refusals.append((codec.name, str(error)))
    assert refusals
    assert all(name in text for name, text in refusals)


def test_a_version_that_is_not_served_is_refused():
    codec = CODECS[0]
    header = frames.RequestHeader(codec.api_key, codec.versions[1] + 1, 0, "")
    with pytest.raises(DecodeError, match="is not served"):
        frames.read_request(codec, header, b"", 0)


def test_a_mutated_api_versions_request_is_no_surprise_either():
    source = random.Random(2)
    frame = b"\0\x12\0\x03\0\0\0\x07\0\x01c\0\x02x\x02y\0"
    answers = refused = 0
    for _ in range(500):
        mutant = mutate(frame, source)
        try:
            header, position = frames.read_request_header(mutant)
            api_versions.answer(header, mutant, position, CODECS)
            answers += 1
        except DecodeError:
            refused += 1
    assert answers
    assert refused
