"""Errors in bytes from the network."""

from __future__ import annotations


class DecodeError(Exception):
    """The bytes are not a message of a served API; the connection's remaining bytes cannot be trusted."""
