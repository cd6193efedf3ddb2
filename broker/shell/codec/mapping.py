"""Maps a message of ours to one of kafka-python's by a table, which is read in both directions.

    mapped(
        (0, 2),
        message(WireRequest, record(DeleteRecordsRequest, partitions=("topics", by_topic(PARTITION)))),
        message(WireResponse, record(DeleteRecordsResponse, …)),
    )

`record` takes the fields of ours that stand under another name on the wire, or in another form; all others have the
same name and form there. Fields that only the wire has get the schema's default. What depends on the version in other
ways than by a missing field is written by hand, as two functions.

kafka-python generates its classes from Kafka's own schemas, which it ships for the APIs of clients. Those of the APIs
between nodes are in `schemas/`, written after Kafka's published message formats.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from kafka.protocol.api_message import ApiMessage

from broker.shell.codec import schemas
from broker.shell.codec.base import Codec
from broker.shell.codec.wire import DecodeError, Parts

WireMessage = Any
"""A message class of kafka-python, or an instance: its attributes are the schema's fields in snake case."""


def define(folder: str, name: str) -> WireMessage:
    """Create the message class for `schemas/<folder>/<name>.json`."""
    return type(ApiMessage)(name, (ApiMessage,), {}, load_json=f"{schemas.__name__}.{folder}")


def decode_message(message: WireMessage, data: bytes, position: int, version: int) -> WireMessage:
    """Read one message that starts at `position`.

    This is `ApiMessage.decode`, but returns the position where reading ended, which the public function does not.
    The position is needed because kafka-python reads a string cut short by the frame as a shorter string.
    """
    flexible = message.flexible_version_q(version)
    read = message._struct.compiled_decode_from(version, compact=flexible, tagged=flexible, data_class=message)
    decoded, end = read(memoryview(data), position)
    if end > len(data):
        raise DecodeError(f"the message needs {end - len(data)} bytes more than the frame has")
    return decoded


def encode_message(message: WireMessage, version: int, **fields: object) -> Parts:
    """Write one message. Fields that the version lacks are left out, missing ones get their defaults."""
    return [bytes(message(version=version, **fields).encode())]


def elements(array: Iterable[WireMessage] | None) -> Iterable[WireMessage]:
    """Iterate over an array's elements; null counts as empty."""
    return () if array is None else array


def uuid_text(value: uuid.UUID | None) -> str:
    """A UUID as text, "" for the all-zero one, which means unknown."""
    return "" if value is None or value.int == 0 else str(value)


def uuid_or_zero(text: str) -> str:
    """Invert `uuid_text`, in the form that kafka-python takes."""
    return text or "00000000-0000-0000-0000-000000000000"


T = TypeVar("T")
Request = TypeVar("Request")
Response = TypeVar("Response")

WireField = Any
"""A field of one of kafka-python's message classes."""


class Both(NamedTuple):
    """The two directions: wire value → ours, and (ours, version) → wire value."""

    read: Callable[[Any], Any]
    write: Callable[[Any, int], Any]


Form = Callable[[WireField], Both]
"""The form in which a value stands in a field of the wire's."""


def form(read: Callable[[Any], Any], write: Callable[[Any], Any] = lambda value: value) -> Form:
    """A form that is the same for every field and version."""
    both = Both(read, lambda value, _: write(value))
    return lambda _: both


SAME = form(lambda value: value)
BYTES = form(bytes)
BOOL = form(bool)
UUID = form(uuid_text, uuid_or_zero)
UUIDS = form(
    lambda array: tuple(uuid_text(each) for each in elements(array)),
    lambda ids: [uuid_or_zero(each) for each in ids],
)
ARRAY = form(lambda array: tuple(elements(array)))
"""Numbers or strings; null counts as empty."""
TEXT = form(lambda text: text or "")
"""Null counts as empty."""


def _mask(bits: Iterable[int] | None) -> int:
    found = sum(1 << bit for bit in bits or (31,))
    return found - (1 << 32) if found >> 31 else found


BITS = form(_mask, lambda mask: {bit for bit in range(32) if mask >> bit & 1})
"""A mask that kafka-python has as a set of bit numbers, None for the smallest number, which means not asked."""


def text_before(first: int) -> Form:
    """A string that may be null only from a version on; before it "" stands for null."""
    both = Both(lambda text: text, lambda text, version: text if version >= first else text or "")
    return lambda _: both


def nullable(inner: Form) -> Form:
    """The form, or null."""

    def bind(field: WireField) -> Both:
        read, write = inner(field)
        return Both(
            lambda value: None if value is None else read(value),
            lambda value, version: None if value is None else write(value, version),
        )

    return bind


def many_from(first: int, inner: Form) -> Form:
    """An array of structures that there is only from a version on; before it nothing is written."""

    def bind(field: WireField) -> Both:
        read, write = many(inner)(field)
        return Both(read, lambda values, version: write(values, version) if version >= first else [])

    return bind


def many(inner: Form) -> Form:
    """An array of structures; null counts as empty."""

    def bind(field: WireField) -> Both:
        read, write = inner(field)
        return Both(
            lambda array: tuple(read(each) for each in elements(array)),
            lambda values, version: [write(each, version) for each in values],
        )

    return bind


def only(name: str, inner: Form = SAME) -> Form:
    """A structure of which nothing counts but one field; in our messages it is that field's value."""

    def bind(field: WireField) -> Both:
        structure = field.data_class
        read, write = inner(structure.fields[name])
        return Both(
            lambda wire: read(getattr(wire, name)),
            lambda value, version: structure(version=version, **{name: write(value, version)}),
        )

    return bind


class Column(NamedTuple):
    """A field of ours, and where and how it stands on the wire; nowhere if `on_wire` is None."""

    name: str
    on_wire: str | None
    form: Form = SAME


NOT_ON_WIRE = Column("", None)
"""A text that the wire lacks: it is read as ""."""

Place = str | Form | tuple[str, Form] | Column
"""What a table says of a field: another name, another form, or both."""


class Structure(Generic[T]):
    """The fields of one of our tuples, in their order, as fields of a structure. It is a form itself."""

    def __init__(self, make: Callable[[Sequence[Any]], T], kind: type[T], columns: Sequence[Column]) -> None:
        self.make = make
        self.kind = kind
        self.columns = columns

    def __call__(self, field: WireField) -> Both:
        """The two directions for a field that holds such structures."""
        return self.bind(field.data_class)

    def bind(self, message: WireMessage) -> Both:
        """The two directions for a class of kafka-python's."""
        read_columns, write_columns = self.directions(message, self.columns)
        make = self.make
        return Both(
            lambda wire: make(read_columns(wire)),
            lambda value, version: message(version=version, **write_columns(value, version)),
        )

    @staticmethod
    def directions(
        message: WireMessage, columns: Sequence[Column]
    ) -> tuple[Callable[[WireMessage], list[Any]], Callable[[Sequence[Any], int], dict[str, Any]]]:
        """Wire structure → values of ours, and values of ours → the wire's fields by name."""
        fields = message.fields
        bound = [
            (at, column.on_wire, *column.form(fields[column.on_wire]))
            for at, column in enumerate(columns)
            if column.on_wire is not None
        ]
        lacking = [at for at, column in enumerate(columns) if column.on_wire is None]

        def read(wire: WireMessage) -> list[Any]:
            values = [read_one(getattr(wire, name)) for _, name, read_one, _ in bound]
            for at in lacking:
                values.insert(at, "")
            return values

        def write(values: Sequence[Any], version: int) -> dict[str, Any]:
            return {name: write_one(values[at], version) for at, name, _, write_one in bound}

        return read, write


def record(kind: type[T], **places: Place) -> Structure[T]:
    """A named tuple of ours; `places` are its fields that do not stand on the wire as they are."""
    names: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    if not places.keys() <= set(names):
        raise ValueError(f"expected fields of {kind.__name__}, found {', '.join(places.keys() - set(names))}")
    return Structure(lambda values: kind(*values), kind, [_column(name, places.get(name, name)) for name in names])


def row(*places: str | tuple[str, Form]) -> Structure[tuple[Any, ...]]:
    """A plain tuple of ours, by the names that its values have on the wire."""
    names = [place if isinstance(place, str) else place[0] for place in places]
    return Structure(tuple, tuple, [_column(name, place) for name, place in zip(names, places, strict=True)])


def _column(name: str, place: Place) -> Column:
    match place:
        case str():
            return Column(name, place)
        case Column():
            return Column(name, place.on_wire, place.form)
        case (str(on_wire), inner):
            return Column(name, on_wire, inner)
        case _:
            return Column(name, name, place)


def by_topic(element: Structure[Any], inner: str = "partitions", *, topic: str = "topic", key: Place = "name") -> Form:
    """An array of topics with partitions each, which our messages list flat, with the topic in every element.

    `inner` is the wire's name of the array of partitions: of structures, or of numbers if the element has nothing but a
    partition. `topic` is the element's field for what the wire has once for all as `key`.
    """
    names = [column.name for column in element.columns]
    at = names.index(topic)
    key_column = _column(topic, key)
    others = [*element.columns[:at], *element.columns[at + 1 :]]

    def bind(field: WireField) -> Both:
        topic_class = field.data_class
        read_key, write_key = Structure.directions(topic_class, [key_column])
        partitions = topic_class.fields[inner]
        read_one, write_one = _of_partition(partitions, others)

        def read(topics: Iterable[WireMessage] | None) -> tuple[Any, ...]:
            out = []
            for each in elements(topics):
                (name,) = read_key(each)
                for partition in elements(getattr(each, inner)):
                    values = read_one(partition)
                    values.insert(at, name)
                    out.append(element.make(values))
            return tuple(out)

        def write(values: Iterable[Sequence[Any]], version: int) -> list[WireMessage]:
            groups = grouped((value[at], (*value[:at], *value[at + 1 :])) for value in values)
            return [
                topic_class(
                    version=version,
                    **write_key((name,), version),
                    **{inner: [write_one(each, version) for each in partitions]},
                )
                for name, partitions in groups
            ]

        return Both(read, write)

    return bind


def _of_partition(
    field: WireField, columns: Sequence[Column]
) -> tuple[Callable[[Any], list[Any]], Callable[[Sequence[Any], int], Any]]:
    """The two directions for one partition: a structure, or its number alone."""
    if field.is_struct_array():
        partition_class = field.data_class
        read, write = Structure.directions(partition_class, columns)
        return read, lambda values, version: partition_class(version=version, **write(values, version))
    number = next(at for at, column in enumerate(columns) if column.on_wire is not None)
    return lambda wire: [wire if at == number else "" for at in range(len(columns))], lambda values, _: values[number]


def grouped(pairs: Iterable[tuple[str, T]]) -> list[tuple[str, list[T]]]:
    """Group the values of each topic (a name or an id), in the order in which topics first appear."""
    topics: dict[str, list[T]] = {}
    for topic, element in pairs:
        topics.setdefault(topic, []).append(element)
    return list(topics.items())


class Message(NamedTuple, Generic[T]):
    """A request or a response: the class of kafka-python's, ours, and the functions between bytes and ours."""

    wire: WireMessage
    kind: type[T]
    decode: Callable[[bytes, int, int], T]
    encode: Callable[[T, int], Parts]


def message(wire: WireMessage, fields: Structure[T], **constants: object) -> Message[T]:
    """A message that a table describes; `constants` are fields of the wire's that have one value, not the default."""
    read, write = fields.bind(wire)

    def decode(data: bytes, position: int, version: int) -> T:
        found: T = read(decode_message(wire, data, position, version))
        return found

    def encode(value: T, version: int) -> Parts:
        made = write(value, version)
        for name, constant in constants.items():
            setattr(made, name, constant)
        return [bytes(made.encode())]

    return Message(wire, fields.kind, decode, encode)


def mapped(
    versions: tuple[int, int],
    request: Message[Request],
    response: Message[Response],
    name_topics: Callable[[Response, Request], Response] | None = None,
) -> Codec[Request, Response]:
    """The codec of an API; its key, its name and where its versions become flexible are those of the schema."""
    low, high = versions
    return Codec(
        api_key=request.wire.API_KEY,
        name=request.wire.name.removesuffix("Request"),
        versions=versions,
        flexible_from=next((each for each in range(low, high + 1) if request.wire.flexible_version_q(each)), high + 1),
        request_type=request.kind,
        decode_request=request.decode,
        encode_request=request.encode,
        decode_response=response.decode,
        encode_response=response.encode,
        name_topics=name_topics,
    )
