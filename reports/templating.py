"""Sets up Jinja for all pages: escapes by default, cuts texts without end, and raises on every undefined name."""

from __future__ import annotations

import re
from typing import Final

import jinja2
from markupsafe import Markup, escape

from common import wording
from history.processes import number_name
from history.protocol import version_in_words

TEXT_CHARACTERS_MAX: Final = 4_000
"""Characters of one value in a page; what is longer says how much is left out."""
_OBEYED: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


_CODE: Final = re.compile(r"`([^`]+)`")
_KEPT_TOGETHER: Final = re.compile(r"(?<=\d) (?=m?s\b)|(?<=fault) (?=#\d)|(?<=broker) (?=\d)")


class Whole(str):
    """A text that is shown in full, because something else bounds it."""

    __slots__ = ()


def environment() -> jinja2.Environment:
    """Return an environment with the templates of this package and the filters that every page needs."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("reports", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_bounded,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.policies["json.dumps_kwargs"] = {"sort_keys": True, "separators": (",", ":")}
    made.filters.update(
        count=wording.count,
        whole=Whole,
        prose=prose,
        numbered=number_name,
        as_sentence=wording.as_sentence,
        version_in_words=version_in_words,
    )
    made.globals.update(plural=wording.plural)
    return made


def prose(text: str) -> Markup:
    """Set what stands between backticks as code, and let no line end within a time or the number of a fault."""
    escaped = str(escape(_bounded(text)))
    return Markup(_KEPT_TOGETHER.sub("\N{NO-BREAK SPACE}", _CODE.sub(r"<code>\1</code>", escaped)))  # noqa: S704


def neutral(page: str) -> str:
    """Replace in a page what a terminal would obey, what turns the direction of writing, and halves of characters."""
    return _OBEYED.sub("\N{REPLACEMENT CHARACTER}", page)


def _bounded(value: object) -> object:
    if not isinstance(value, str) or isinstance(value, Markup | Whole) or len(value) <= TEXT_CHARACTERS_MAX:
        return value
    return f"{value[:TEXT_CHARACTERS_MAX]}… {wording.count(len(value) - TEXT_CHARACTERS_MAX)} more characters"
