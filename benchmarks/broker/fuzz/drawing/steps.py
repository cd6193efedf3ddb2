"""Draws what the fuzzer does, step by step: each step follows from the seed, the listener and its number alone."""

from __future__ import annotations

import base64
import random
import struct
from enum import Enum
from typing import Any, NamedTuple

from benchmarks.broker.fuzz.drawing import batches, schemas
from benchmarks.broker.fuzz.drawing.messages import Writer, varint
from benchmarks.broker.fuzz.drawing.schemas import Schema
from benchmarks.broker.fuzz.drawing.values import FUZZED, KEPT

QUORUM_APIS = {52, 53, 54, 55, 59}
"""APIs about the metadata log."""

_FETCH, _PRODUCE, _LIST_OFFSETS, _METADATA, _API_VERSIONS = 1, 0, 2, 3, 18
ACTIVE = 0
"""The target that leads the quorum; 1 to 3 are the listener's nodes in their order."""


class Behaviour(Enum):
    """How the frames of a step go over the connection."""

    ASK = "ask"  # one after the other, each answer is read
    PIPELINE = "pipeline"  # all at once, and no answer is read
    CUT = "cut"  # the connection is reset in the middle of an answer
    HALF = "half"  # the last frame does not end, and the connection stays
    SLOW = "slow"  # a byte a second
    IDLE = "idle"  # connections that stay


class Step(NamedTuple):
    """One thing that the fuzzer does. Frames have marks in place of what only a living cluster knows."""

    number: int
    kind: str
    target: int
    """`ACTIVE`, or the place (from 1) of one of the listener's nodes."""

    behaviour: Behaviour
    frames: tuple[bytes, ...]

    def as_json(self) -> dict[str, Any]:
        """The step as a line of a saved file."""
        frames = [base64.b64encode(frame).decode() for frame in self.frames]
        return {**self._asdict(), "behaviour": self.behaviour.value, "frames": frames}


def from_json(data: dict[str, Any]) -> Step:
    """Invert `Step.as_json`."""
    frames = tuple(base64.b64decode(frame) for frame in data["frames"])
    return Step(**{**data, "behaviour": Behaviour(data["behaviour"]), "frames": frames})


_KINDS = {
    "one hostile value": 35,
    "hostile values": 15,
    "changed bytes": 14,
    "cut short": 5,
    "garbage": 4,
    "wrong size": 3,
    "large": 2,
    "unknown API or version": 5,
    "compression bomb": 3,
    "pipelined, unread": 3,
    "cut in the answer": 5,
    "half a frame": 3,
    "slow": 1,
    "idle": 2,
}
"""Kind → how often, of a hundred steps."""


def drawn(seed: int, listener: str, number: int) -> Step:
    """One step."""
    draw = random.Random(f"{seed}/{listener}/{number}")
    kinds = [kind for kind in _KINDS if listener == "CLIENT" or kind != "compression bomb"]
    kind = draw.choices(kinds, [_KINDS[each] for each in kinds])[0]
    target = draw.choice((ACTIVE, ACTIVE, ACTIVE, 1, 2, 3)) if listener == "CONTROLLER" else draw.choice((1, 2, 3))
    behaviour, frames = _Drawing(draw, listener).of(kind)
    return Step(number, kind, target, behaviour, tuple(frames))


class _Drawing:
    def __init__(self, draw: random.Random, listener: str) -> None:
        self.draw = draw
        self.listener = listener

    def of(self, kind: str) -> tuple[Behaviour, list[bytes]]:
        """How, and which frames."""
        draw = self.draw
        match kind:
            case "hostile values":
                return Behaviour.ASK, [self._request(draw.choice((0.0, 0.02, 0.05, 0.1, 0.3)))]
            case "one hostile value":
                return Behaviour.ASK, [self._with_one_hostile_value()]
            case "changed bytes":
                return Behaviour.ASK, [_changed(self._request(draw.choice((0.0, 0.05))), draw)]
            case "cut short":
                frame = self._request(0.0)
                cut = frame[4 : draw.randrange(4, len(frame) + 1)]
                return Behaviour.ASK, [struct.pack(">i", len(cut)) + cut]
            case "garbage":
                return Behaviour.ASK, [draw.randbytes(draw.choice((1, 3, 4, 5, 100, 10_000)))]
            case "wrong size":
                size = draw.choice((-1, -(1 << 31), (1 << 31) - 1, 101 << 20, 100 << 20, 0, 1, 7))
                return Behaviour.ASK, [struct.pack(">i", size) + self._request(0.0)[4:]]
            case "large":
                return Behaviour.ASK, [self._large()]
            case "unknown API or version":
                return Behaviour.ASK, [self._unknown()]
            case "compression bomb":
                return Behaviour.ASK, self._bomb()
            case "pipelined, unread":
                frame = draw.choice((self._request(0.0), self._all_topics(), self._whole_log()))
                return Behaviour.PIPELINE, [frame] * draw.choice((10, 100, 400))
            case "cut in the answer":
                return Behaviour.CUT, [draw.choice((self._request(0.0), self._all_topics(), self._whole_log()))]
            case "half a frame":
                whole = draw.choice((self._request(0.0), self._large()))
                return Behaviour.HALF, [whole[: draw.randrange(1, len(whole))]]
            case "slow":
                return Behaviour.SLOW, [self._request(0.02)[:600]]
            case _:
                return Behaviour.IDLE, [b""] * draw.choice((1, 10, 50))

    def _request(self, hostility: float, schema: Schema | None = None) -> bytes:
        draw = self.draw
        chosen = schema or draw.choice(schemas.served(self.listener))
        writer = Writer(draw, hostility, of_quorum=self._is_of_quorum(chosen))
        return writer.frame(chosen, draw.randint(*chosen.versions), draw.randrange(1 << 31))

    def _with_one_hostile_value(self) -> bytes:
        """A request that is plausible in all places but one: the only way to what is checked last."""
        seed = self.draw.randrange(1 << 62)
        schema = self.draw.choice(schemas.served(self.listener))
        version = self.draw.randint(*schema.versions)
        of_quorum = self._is_of_quorum(schema)
        plausible = Writer(random.Random(seed), 0.0, -1, of_quorum=of_quorum)
        plausible.frame(schema, version, 0)
        only = self.draw.randrange(max(1, plausible.places))
        return Writer(random.Random(seed), 0.0, only, of_quorum=of_quorum).frame(schema, version, 0)

    def _is_of_quorum(self, schema: Schema) -> bool:
        return schema.api_key in QUORUM_APIS or (schema.api_key == _FETCH and self.listener == "CONTROLLER")

    def _large(self) -> bytes:
        """A frame of many elements or many bytes, up to what the broker's settings allow."""
        draw = self.draw
        count = draw.choice((10_000, 100_000, 300_000))
        head = struct.pack(">hhih", 0, 0, 1, -1)
        element = b"\0" * 16 + varint(9) + draw.choice((b"fuzzed-0", b"nothing-")) + b"\0"
        match draw.randrange(5):
            case 0 if self.listener == "CLIENT":
                body = _head(_METADATA, 12) + b"\0" + varint(count + 1) + element * count + b"\0\0\0\0"
            case 1 if self.listener != "CONTROLLER":
                asked = struct.pack(">iiq", 0, -1, 1_500) + b"\0"  # a partition by time, again and again
                body = _head(_LIST_OFFSETS, 6) + b"\0" + struct.pack(">ib", -1, 0) + b"\2" + varint(9) + b"fuzzed-0"
                body += varint(count + 1) + asked * count + b"\0\0"
            case 2:
                asked = struct.pack(">iiqiqib", 0, -1, 0, -1, -1, 1 << 30, 0)
                topic = b"fuzzed-0" if self.listener != "CONTROLLER" else b"__cluster_metadata"
                body = _head(_FETCH, 12) + b"\0" + struct.pack(">iiiibii", -1, 0, 0, 0x7FFFFFFF, 0, 0, -1)
                body += b"\2" + varint(len(topic) + 1) + topic + varint(count + 1) + asked * count + b"\0\1\1\0"
            case 3:
                body = _head(draw.choice(schemas.served(self.listener)).api_key, 0) + bytes(draw.choice((1, 30)) << 20)
            case _:
                body = head + draw.randbytes(draw.choice((1, 8)) << 20)
        return struct.pack(">i", len(body)) + body

    def _unknown(self) -> bytes:
        draw = self.draw
        if draw.random() < 0.5:
            return self._request(0.0, draw.choice(schemas.not_served(self.listener)))
        key = draw.choice((-1, 90, 999, 0x7FFF, -0x8000, *(each.api_key for each in schemas.served(self.listener))))
        version = draw.choice((-1, 99, 0x7FFF, -0x8000))
        body = struct.pack(">hhi", key, version, 1) + b"\xff\xff" + draw.randbytes(draw.choice((0, 4, 40)))
        return struct.pack(">i", len(body)) + body

    def _bomb(self) -> list[bytes]:
        """A bomb, then what makes a broker look into it: ListOffsets by time, often in one request, and a fetch."""
        draw = self.draw
        topic, partition = draw.choice(FUZZED), draw.choice((0, 1))
        records = batches.bomb(draw.choice((1, 2, 3, 4)), draw.choice(batches.BOMB_KINDS))
        name = struct.pack(">h", len(topic)) + topic.encode()
        body = _head(_PRODUCE, 7) + struct.pack(">hhi", -1, 1, 1_000) + struct.pack(">i", 1) + name
        body += struct.pack(">iii", 1, partition, len(records)) + records
        times = draw.choice((1, 1, 20, 1_000))
        asked = b"".join(struct.pack(">iiq", partition, -1, time) for time in (1_999, -3))
        search = _head(_LIST_OFFSETS, 5) + struct.pack(">ib", -1, 0) + struct.pack(">i", 1) + name
        search += struct.pack(">i", 2 * times) + asked * times
        latest = _head(_LIST_OFFSETS, 7) + b"\0" + struct.pack(">ib", -1, 0) + b"\2" + varint(len(topic) + 1)
        latest += topic.encode() + b"\2" + struct.pack(">iiq", partition, -1, -3) + b"\0\0\0"
        return [struct.pack(">i", len(each)) + each for each in (body, search, latest)] + [self._whole_log()]

    def _all_topics(self) -> bytes:
        """Metadata of all topics, or what comes nearest to it on the listener."""
        if self.listener != "CLIENT":
            return self._request(0.0, schemas.served(self.listener)[-1])
        body = _head(_METADATA, 1) + b"\xff\xff\xff\xff"
        return struct.pack(">i", len(body)) + body

    def _whole_log(self) -> bytes:
        """A fetch of as much as there is, without a bound."""
        topic = "__cluster_metadata" if self.listener == "CONTROLLER" else self.draw.choice((KEPT, *FUZZED))
        body = _head(_FETCH, 4) + struct.pack(">iiiib", -1, 0, 0, 0x7FFFFFFF, 0) + struct.pack(">ih", 1, len(topic))
        partitions = (0,) if self.listener == "CONTROLLER" else (0, 1, 2)
        body += topic.encode() + struct.pack(">i", len(partitions))
        body += b"".join(struct.pack(">iqi", each, 0, 0x7FFFFFFF) for each in partitions)
        return struct.pack(">i", len(body)) + body


def _head(api_key: int, version: int) -> bytes:
    return struct.pack(">hhih", api_key, version, 1, -1)


def _changed(frame: bytes, draw: random.Random) -> bytes:
    """The frame with some bytes changed, inserted or removed; its length is right again, but for a tenth."""
    data = bytearray(frame[4:])
    for _ in range(draw.choice((1, 1, 2, 5, 20))):
        at = draw.randrange(len(data) + 1)
        match draw.randrange(5):
            case 0 if at < len(data):
                data[at] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
            case 1:
                data[at:at] = draw.randbytes(draw.choice((1, 2, 4, 8)))
            case 2:
                del data[at : at + draw.choice((1, 2, 4, 8))]
            case 3:
                data[at : at + 4] = draw.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0"))
            case _ if at < len(data):
                data[at] ^= 1 << draw.randrange(8)
    size = len(data) if draw.random() < 0.9 else draw.choice((0, len(data) + 1, max(0, len(data) - 1)))
    return struct.pack(">i", size) + bytes(data)
