"""Links the rules and properties of the protocol that a page names to their sentences, in a section at its end.

A reader who has only the page finds there what BL-10 or P-12 means, and sees it by pointing at the id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import Final

from history.protocol import FAILURE_ID, failure_sentences

_MARKUP: Final = re.compile(
    r"(<(?:script\b.*?</script|style\b.*?</style|title\b.*?</title|a\b.*?</a|[^>]*)>)", re.DOTALL
)
"""Tags, and whole elements in whose texts no id is linked."""
_END: Final = "</main>"


def with_rules(page: str) -> str:
    """Link each id of a known rule in the texts of a page, and add the section with the sentences before its end.

    A page that names none stays as it is.
    """
    named: set[str] = set()
    in_picture = False
    parts = _MARKUP.split(page)
    for index, part in enumerate(parts):
        if part.startswith(("<svg", "</svg")):
            in_picture = part.startswith("<svg")
        elif index % 2 == 0:
            parts[index] = _linked(part, named, in_picture=in_picture)
    return "".join(parts).replace(_END, _section(named) + _END, 1) if named else page


def _linked(text: str, named: set[str], *, in_picture: bool) -> str:
    def link(match: re.Match[str]) -> str:
        rule = match[0]
        sentence = failure_sentences().get(rule)
        if sentence is None:
            return rule
        named.add(rule)
        if in_picture:  # in a picture an element says what the attribute says elsewhere
            return f'<a class="rule" href="#rule-{rule}"><title>{escape(sentence)}</title>{rule}</a>'
        return f'<a class="rule" href="#rule-{rule}" title="{escape(sentence)}">{rule}</a>'

    return FAILURE_ID.sub(link, text)


def _section(named: Iterable[str]) -> str:
    """Return the section: the rules in the order of the protocol, with those that their sentences name."""
    sentences = failure_sentences()
    wanted = set(named)
    waiting = list(wanted)
    while waiting:
        others = {other for other in FAILURE_ID.findall(sentences[waiting.pop()]) if other in sentences} - wanted
        wanted |= others
        waiting += others
    rows = "\n".join(
        f'<dt id="rule-{rule}">{rule}</dt><dd>{_linked(escape(sentence), set(), in_picture=False)}</dd>'
        for rule, sentence in sentences.items()
        if rule in wanted
    )
    return (
        '<section aria-labelledby="rules">\n<h2 id="rules">Rules named on this page</h2>\n'
        "<p>Rules and properties of the replication protocol, and flaws that early versions and designs are known for"
        " (B-…, Z-…), by their ids.</p>\n"
        f'<dl class="rules">\n{rows}\n</dl>\n</section>\n'
    )
