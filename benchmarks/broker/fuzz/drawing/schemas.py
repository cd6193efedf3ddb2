"""Kafka's message schemas of all requests, by API: those that come with kafka-python, and those of the broker."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from broker.shell.codec import schemas as of_broker
from broker.shell.codec.apis import LISTENER_APIS

API_VERSIONS = 18
_COMMENT = re.compile(r"(?m)^\s*//.*$")
_EVER = (0, 0x7FFF)
_FETCH_SNAPSHOT = {
    "apiKey": 59,
    "name": "FetchSnapshotRequest",
    "validVersions": "0-1",
    "flexibleVersions": "0+",
    "fields": [
        {"name": "ClusterId", "type": "string", "versions": "0+", "nullableVersions": "0+", "tag": 0}
        | {"taggedVersions": "0+"},
        {"name": "ReplicaId", "type": "int32", "versions": "0+"},
        {"name": "MaxBytes", "type": "int32", "versions": "0+"},
        {
            "name": "Topics",
            "type": "[]TopicSnapshot",
            "versions": "0+",
            "fields": [
                {"name": "TopicName", "type": "string", "versions": "0+"},
                {
                    "name": "Partitions",
                    "type": "[]PartitionSnapshot",
                    "versions": "0+",
                    "fields": [
                        {"name": "Partition", "type": "int32", "versions": "0+"},
                        {"name": "CurrentLeaderEpoch", "type": "int32", "versions": "0+"},
                        {
                            "name": "SnapshotId",
                            "type": "SnapshotId",
                            "versions": "0+",
                            "fields": [
                                {"name": "EndOffset", "type": "int64", "versions": "0+"},
                                {"name": "Epoch", "type": "int32", "versions": "0+"},
                            ],
                        },
                        {"name": "Position", "type": "int64", "versions": "0+"},
                    ],
                },
            ],
        },
    ],
}
"""The one request between nodes whose codec is written by hand."""


class Field(NamedTuple):
    """One field of a message or structure; versions are (first, last), None: never."""

    name: str
    kind: str
    """The element's type if it is an array."""

    is_array: bool
    versions: tuple[int, int]
    nullable: tuple[int, int] | None
    tagged: tuple[int, int] | None
    tag: int
    fields: tuple[Field, ...]
    """Of a structure; otherwise empty."""


class Schema(NamedTuple):
    """One request."""

    api_key: int
    name: str
    versions: tuple[int, int]
    """Those that the broker serves; of an API that it does not serve, those of the schema."""

    flexible_from: int
    fields: tuple[Field, ...]


def within(version: int, versions: tuple[int, int] | None) -> bool:
    """Whether a version is in a range."""
    return versions is not None and versions[0] <= version <= versions[1]


@cache
def served(listener: str) -> tuple[Schema, ...]:
    """The requests that a listener serves, ApiVersions among them. Raises KeyError if the schema of one is missing."""
    known = _all()
    apis = LISTENER_APIS[listener]
    return (
        *(known[key]._replace(versions=codec.versions) for key, codec in sorted(apis.items())),
        known[API_VERSIONS],
    )


@cache
def not_served(listener: str) -> tuple[Schema, ...]:
    """Requests of Kafka's that a listener does not serve."""
    return tuple(
        schema for key, schema in sorted(_all().items()) if key not in LISTENER_APIS[listener] and key != API_VERSIONS
    )


@cache
def _all() -> dict[int, Schema]:
    own = resources.files(of_broker.__name__).iterdir()
    texts = [
        file.read_text()
        for folder in (
            resources.files("kafka.protocol.schemas.resources"),
            *sorted((each for each in own if each.is_dir()), key=lambda each: each.name),
        )
        for file in sorted(folder.iterdir(), key=lambda each: each.name)
        if file.name.endswith("Request.json")
    ]
    found = [_schema(json.loads(_COMMENT.sub("", text))) for text in texts] + [_schema(_FETCH_SNAPSHOT)]
    return {schema.api_key: schema for schema in found}


def _schema(data: dict[str, Any]) -> Schema:
    common = {each["name"]: each["fields"] for each in data.get("commonStructs", [])}
    flexible = _range(data["flexibleVersions"])
    return Schema(
        data["apiKey"],
        data["name"].removesuffix("Request"),
        _range(data["validVersions"]) or _EVER,
        flexible[0] if flexible else _EVER[1],
        tuple(_field(each, common) for each in data["fields"]),
    )


def _field(data: dict[str, Any], common: dict[str, list[dict[str, Any]]]) -> Field:
    kind = data["type"].removeprefix("[]")
    return Field(
        data["name"],
        kind,
        data["type"].startswith("[]"),
        _range(data["versions"]) or _EVER,
        _range(data.get("nullableVersions", "none")),
        _range(data.get("taggedVersions", "none")),
        data.get("tag", -1),
        tuple(_field(each, common) for each in data.get("fields", common.get(kind, []))),
    )


def _range(text: str) -> tuple[int, int] | None:
    if text == "none":
        return None
    first, _, last = text.partition("-")
    return int(first.rstrip("+")), int(last) if last else _EVER[1] if first.endswith("+") else int(first)
