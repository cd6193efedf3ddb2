"""Links the rules and properties of the protocol that a page names to their sentences, in a section at its end.

A reader who has only the page finds there what BL-10 or P-12 means, and sees it by pointing at the id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import Final

from history.protocol import RULE_ID, protocol_rules

_TAG: Final = re.compile(r"(<[^>]*>)")
_NAME: Final = re.compile(r"</?([a-zA-Z0-9]+)")
_NOT_LINKED: Final = frozenset({"a", "script", "style", "title"})
"""Elements in whose texts no id is linked."""
_END: Final = "</main>"


def with_rules(page: str) -> str:
    """Link each id of a known rule in the texts of a page, and add the section with the sentences before its end.

    A page that names none stays as it is.
    """
    named: set[str] = set()
    inside: list[str] = []
    in_picture = False
    parts = _TAG.split(page)
    for index, part in enumerate(parts):
        tag = _NAME.match(part) if index % 2 else None
        if tag is not None:
            name = tag[1].lower()
            if name == "svg":
                in_picture = not part.startswith("</")
            elif name in _NOT_LINKED and part.startswith("</"):
                inside = inside[:-1]
            elif name in _NOT_LINKED and not part.endswith("/>"):
                inside.append(name)
        elif not inside and RULE_ID.search(part):
            parts[index] = _linked(part, named, in_picture=in_picture)
    return "".join(parts).replace(_END, _section(named) + _END, 1) if named else page


def _linked(text: str, named: set[str], *, in_picture: bool) -> str:
    def link(match: re.Match[str]) -> str:
        rule = protocol_rules().get(match[0])
        if rule is None:
            return match[0]
        named.add(rule.id)
        sentence = escape(rule.statement)
        if in_picture:  # in a picture an element says what the attribute says elsewhere
            return f'<a class="rule" href="#rule-{rule.id}"><title>{sentence}</title>{rule.id}</a>'
        return f'<a class="rule" href="#rule-{rule.id}" title="{sentence}">{rule.id}</a>'

    return RULE_ID.sub(link, text)


def _section(named: Iterable[str]) -> str:
    """Return the section: the rules in the order of the protocol, with those that their sentences name."""
    rules = protocol_rules()
    wanted = set(named)
    waiting = list(wanted)
    while waiting:
        others = {other for other in RULE_ID.findall(rules[waiting.pop()].statement) if other in rules} - wanted
        wanted |= others
        waiting += others
    rows = "\n".join(
        f'<dt id="rule-{rule.id}">{rule.id}</dt><dd>{_linked(escape(rule.statement), set(), in_picture=False)}</dd>'
        for rule in rules.values()
        if rule.id in wanted
    )
    return (
        '<section aria-labelledby="rules">\n<h2 id="rules">Rules named on this page</h2>\n'
        "<p>Rules and properties of the replication protocol, by their ids.</p>\n"
        f'<dl class="rules">\n{rows}\n</dl>\n</section>\n'
    )
