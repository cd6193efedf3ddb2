"""The wire nests partitions in topics, the core's messages list partitions: the way from one to the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def by_topic(pairs: Iterable[tuple[str, T]]) -> list[tuple[str, list[T]]]:
    """Group what belongs to one topic (a name or an id), in the order in which topics first appear."""
    topics: dict[str, list[T]] = {}
    for topic, element in pairs:
        topics.setdefault(topic, []).append(element)
    return list(topics.items())
