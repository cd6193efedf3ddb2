"""Leaves out what a request asks for again: a small request could otherwise have an answer of any size."""

from __future__ import annotations

from typing import Any, TypeVar

Request = TypeVar("Request", bound=tuple[Any, ...])


def without_repetitions(request: Request) -> Request:
    """The request with each element of its arrays once, in their order; the same object if there is nothing to omit."""
    shorter = {
        name: kept
        for name, value in zip(request._fields, request, strict=True)  # type: ignore[attr-defined]
        if isinstance(value, tuple) and len(value) > 1 and len(kept := tuple(dict.fromkeys(value))) < len(value)
    }
    return request._replace(**shorter) if shorter else request  # type: ignore[attr-defined]
