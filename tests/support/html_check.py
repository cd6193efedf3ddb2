"""A strict reading of HTML: balanced elements, unique ids, no reference to anything outside the file."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

VOID = {"meta", "br", "hr", "img", "input", "link"}
REFERRING = {"src", "href", "srcset", "data", "action", "poster", "formaction"}


class Page(HTMLParser):
    """Parses a page and keeps what tests ask about. A fault of form is an assertion."""

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.source = path.read_text(encoding="utf-8")
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.ids: set[str] = set()
        self.references: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(self.source)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        attributes = dict(attrs)
        self.elements.append((tag, attributes))
        if "id" in attributes:
            assert attributes["id"] not in self.ids, f"id {attributes['id']} is there twice"
            self.ids.add(attributes["id"])
        self.references += [value or "" for name, value in attrs if name in REFERRING]
        self.references += re.findall(r"url\(([^)]*)\)", attributes.get("style") or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> closes <{self.open[-1]}>"
        self.open.pop()

    def handle_data(self, data):
        if data.strip():
            self.texts.append((self.open[-1] if self.open else "", data.strip()))
        if self.open and self.open[-1] == "style":
            self.references += re.findall(r"url\(([^)]*)\)|@import", data)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)

    @property
    def text(self) -> str:
        """The visible text, in order."""
        return " ".join(data for tag, data in self.texts if tag not in ("style", "script", "title"))

    @property
    def dangling(self) -> list[str]:
        """References that do not lead to an id of this page."""
        return [ref for ref in self.references if not (ref.startswith("#") and ref[1:] in self.ids)]
