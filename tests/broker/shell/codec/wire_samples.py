"""Random messages of the core, within the ranges of the wire format, from a seed."""

from __future__ import annotations

import random
import sys
import types
import typing
import uuid

from broker.shell.codec.base import Codec

_INT8 = {
    "config_source",
    "config_type",
    "election_type",
    "endpoint_type",
    "isolation_level",
    "key_type",
    "leader_recovery_state",
    "operation",
    "resource_type",
    "resource_types",
}
_INT16 = {"acks", "producer_epoch", "replication_factor"}
_INT64 = {
    "base_offset",
    "broker_epoch",
    "current_metadata_offset",
    "end_offset",
    "fetch_offset",
    "high_watermark",
    "last_caught_up_ms",
    "last_epoch_end_offset",
    "last_fetch_ms",
    "last_stable_offset",
    "log_end_offset",
    "log_start_offset",
    "low_watermark",
    "offset",
    "offset_lag",
    "position",
    "previous_broker_epoch",
    "producer_id",
    "producer_id_start",
    "replica_epoch",
    "size",
    "timestamp",
}
_PAIRS = {
    "diverging_epoch": (32, 64),
    "current_leader": (32, 32),
    "snapshot_id": (64, 32),
    "new_isr": (32, 64),
}
_UUIDS = {"topic_id", "incarnation_id", "log_dirs"}
_ERROR_CODES = (-1, 0, 1, 3, 6, 7, 42, 74, 100)
_ALPHABET = "abcXYZ019._-äß漢"


class Sampler:
    """Draws messages; equal seeds draw equal messages."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def request(self, codec: Codec[typing.Any, typing.Any]) -> typing.Any:
        """A request of an API."""
        return self._message(codec.request_type)

    def response(self, codec: Codec[typing.Any, typing.Any]) -> typing.Any:
        """A response of an API."""
        module = sys.modules[codec.request_type.__module__]
        return self._message(getattr(module, codec.request_type.__name__.replace("Request", "Response")))

    def _message(self, kind: type) -> typing.Any:
        hints = typing.get_type_hints(kind)
        return kind(**{name: self._value(name, hint) for name, hint in hints.items()})

    def _value(self, name: str, hint: typing.Any) -> typing.Any:
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin in (types.UnionType, typing.Union):
            inner = next(each for each in arguments if each is not types.NoneType)
            return None if self._random.random() < 0.3 else self._value(name, inner)
        if origin is tuple:
            return self._tuple(name, arguments)
        if hint is int:
            return self._integer(name)
        if hint is str:
            return self._text(name)
        if hint is bytes:
            return self._random.randbytes(self._random.choice((0, 1, 61, 126, 127, 128, 20_000)))
        if hint is bool:
            return self._random.random() < 0.5
        return self._message(hint)

    def _tuple(self, name: str, arguments: tuple[typing.Any, ...]) -> tuple[typing.Any, ...]:
        if arguments[-1] is Ellipsis:
            count = self._random.choice((0, 1, 1, 2, 3))
            return tuple(self._value(name, arguments[0]) for _ in range(count))
        if name in _PAIRS:
            return tuple(self._bits(bits) for bits in _PAIRS[name])
        if arguments == (str | None, str):  # a topic by name or by id
            return self._random.choice(((self._text("topic"), ""), (None, self._text("topic_id"))))
        if name == "resources" and arguments[0] is int:  # described by type, name and keys
            return (self._bits(8), self._text("name"), self._value("keys", arguments[2]))
        if name == "resources" and arguments == (str, int):  # a resource's name and type
            return (self._text("name"), self._bits(8))
        if name in ("synonyms", "configs") and arguments[-1] is int:  # a setting, and the number of its source
            return (*(self._value(name, argument) for argument in arguments[:-1]), self._bits(8))
        if name in ("assignments", "results") and arguments[:2] == (str, str):  # directory, topic, partition, error
            ids = (self._text("topic_id"), self._text("topic_id"))
            return (*ids, *(self._integer(kind) for kind in ("partition", "error_code")[: len(arguments) - 2]))
        if arguments == (str, str, int):  # a forgotten partition
            return (self._text("topic"), self._text("topic_id"), self._bits(32))
        return tuple(self._value(name, argument) for argument in arguments)

    def _integer(self, name: str) -> int:
        if name == "error_code":
            return self._random.choice(_ERROR_CODES)
        if name == "log_append_time_ms":
            return self._random.choice((-1, 0, 1_700_000_000_123))
        if name == "port":
            return self._random.randrange(1 << 16)
        for names, bits in ((_INT8, 8), (_INT16, 16), (_INT64, 64)):
            if name in names:
                return self._bits(bits)
        return self._bits(32)

    def _bits(self, bits: int) -> int:
        return self._random.randrange(-(1 << (bits - 1)), 1 << (bits - 1))

    def _text(self, name: str) -> str:
        if name in _UUIDS:
            return str(uuid.UUID(int=self._random.getrandbits(128)))
        size = self._random.choice((1, 3, 130))
        return "".join(self._random.choices(_ALPHABET, k=size))
