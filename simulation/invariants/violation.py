"""The exception for a broken property."""

from __future__ import annotations


class Violation(Exception):
    """A property of the protocol is broken. `property_id` is its id, as in the observer's list."""

    def __init__(self, property_id: str, what: str) -> None:
        super().__init__(f"{property_id}: {what}")
        self.property_id = property_id
