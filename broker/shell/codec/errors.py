"""What can be wrong with bytes from the network."""

from __future__ import annotations


class DecodeError(Exception):
    """The bytes are not a message that we speak; nothing after them on the connection can be trusted."""
