"""The error for an invalid request, and the line about an unknown name: expected, found, which was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

LISTED_MAX: Final = 12
"""Up to this many names are listed in the line; for more it refers to the command that lists them."""

_PART_CHARACTERS: Final = 4
"""Minimum length of an input that is matched as a part of a longer name."""


class SpecError(ValueError):
    """A user's request is invalid. One line: what was expected, what was found, what to do."""


def unknown(found: object, known: Iterable[str], what: str = "", see: str = "") -> str:
    """Return "expected one of a, b, c, found 'x'; did you mean b?".

    `what` says what kind of name it is ("a role"); `see` is the command, or the page, that lists them where they are
    many.
    """
    names = list(dict.fromkeys(known))
    near = closest_name(str(found), names)
    advice = f"; did you mean {near}?" if near else ""
    return f"expected {_expected(names, what or 'a name', see, near is not None)}, found {found!r}{advice}"


def closest_name(found: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to this one or contains it; None if there is none."""
    by_plain = {_plain(name): name for name in known}
    plain = _plain(found)
    near = difflib.get_close_matches(plain, by_plain, 1)
    if not near and len(plain) >= _PART_CHARACTERS:
        near = [name for name in by_plain if plain in name][:1]
    return by_plain[near[0]] if near else None


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def _expected(names: list[str], what: str, see: str, has_near: bool) -> str:
    if not names:
        return f"{what}, of which there are none"
    if len(names) > LISTED_MAX and (see or has_near):
        return f"{what} (see {see})" if see else what
    if what == "a name":
        return names[0] if len(names) == 1 else f"one of {', '.join(names)}"
    return f"{what}, one of {', '.join(names)}"
