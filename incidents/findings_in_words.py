"""Words the simulator's findings for readers who know Kafka and not the simulator: who did what, and why it is wrong.

A finding states what was compared, as exactly as those who debug the broker need it. A sentence that is not known here
is left as it is, without what only serves to find it again.
"""

from __future__ import annotations

import re
from typing import Final

from common.wording import partition_name
from history.protocol import version_in_words
from incidents.evidence import Finding
from incidents.finding_sentences import IN_A_SCHEDULE, KNOWN

_NO_LEADER: Final = re.compile(r"\bleader -1\b")
_VOTER: Final = re.compile(r"\bvoter (?=\d)")
_CHECKSUM: Final = re.compile(r" \(crc \w+\)")
_BATCH: Final = re.compile(r"(?<=is committed): \d+…\d+ of epoch \d+(?: \(crc \w+\))?")

_DOCUMENTED: Final = re.compile(r" \(documented for (\S+): ([^()]*)\)$")
"""What a check says of a failure that is known of the protocol version."""

_FLAWS_FIRST: Final = re.compile(r"((?:[BZ]-\d+)(?:, [BZ]-\d+)*): (.+)")
_FLAWS_LAST: Final = re.compile(r"(.+), ([BZ]-\d+(?: (?:or|and) [BZ]-\d+)*)")


def plain(finding: Finding) -> str:
    """Return what a finding says, without what only serves to find it again: ids, checksums, ranges of batches."""
    return _VOTER.sub("controller ", _NO_LEADER.sub("no leader", _stated(finding)))


def _stated(finding: Finding) -> str:
    text = _DOCUMENTED.sub("", finding.what).removeprefix(f"{finding.property_id}: ")
    name = f"{finding.topic}-{finding.partition}"
    if text.startswith(f"{name}: "):
        text = f"{text.removeprefix(f'{name}: ')} (partition {name})"
    return _CHECKSUM.sub("", _BATCH.sub("", text))


def known_gap(finding: Finding) -> str:
    """Return why the protocol version permits what was found, a sentence; empty if it does not."""
    known = _DOCUMENTED.search(finding.what)
    if known is None:
        return ""
    what, flaws = known[2], ""
    if (first := _FLAWS_FIRST.fullmatch(known[2])) is not None:
        flaws, what = first.groups()
    elif (last := _FLAWS_LAST.fullmatch(known[2])) is not None:
        what, flaws = last.groups()
    listed = f" (`harrow flaws` describes {'it' if ' ' not in flaws else 'them'} as {flaws})" if flaws else ""
    return f"Protocol version {version_in_words(known[1])} is known for it: {what}{listed}."


def in_words(finding: Finding) -> str:
    """Return a finding as a clause that explains itself, or else what it says."""
    name = partition_name(finding.topic, finding.partition)
    text = _stated(finding).removesuffix(f" (partition {name})")
    for pattern, template in KNOWN.get(finding.property_id, ()):
        match = re.fullmatch(pattern, text)
        if match is not None:
            return template(match, name) if callable(template) else _expanded(match, template, name)
    for pattern, template in IN_A_SCHEDULE:
        match = re.fullmatch(pattern, text)
        if match is not None:
            return _expanded(match, template, name)
    return plain(finding)


def _expanded(match: re.Match[str], template: str, name: str) -> str:
    return match.expand(template.replace("{name}", name.replace("\\", r"\\")))
