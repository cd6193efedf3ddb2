"""Groups partitions by topic: the wire nests partitions in topics, the core's messages list them flat."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def by_topic(pairs: Iterable[tuple[str, T]]) -> list[tuple[str, list[T]]]:
    """Group the values of each topic (a name or an id), in the order in which topics first appear."""
    topics: dict[str, list[T]] = {}
    for topic, element in pairs:
        topics.setdefault(topic, []).append(element)
    return list(topics.items())
