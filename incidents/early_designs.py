"""Which losses the designs before leader epochs are known for: a real run of one says so, as a simulated one does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from history.protocol import version_in_words
from incidents.evidence import Evidence
from incidents.lost_storage import KNOWN_GAP
from incidents.model import Cause

_CUTS = "a follower cuts its log to its high watermark, which lags behind what is committed"
_COMPARES_ENDS = "logs are compared by their ends alone"

_REPLACED = "a leader that was replaced, and does not know that, goes on to"
_WITHOUT_EPOCHS = {"wrong-cut": f"{_CUTS} (Z-01)", "diverged-log-kept": f"{_COMPARES_ENDS} (Z-04 and Z-05)"}

_KNOWN = {
    "zk-v1": {
        **_WITHOUT_EPOCHS,
        "unclean-election": f"{_REPLACED} write the ISR, and may write itself into it (Z-02)",
        "acknowledged-early": f"{_REPLACED} acknowledge (Z-02)",
    },
    "zk-v2": _WITHOUT_EPOCHS,
    "C1": {
        "wrong-cut": f"{_CUTS} (B-11)",
        "diverged-log-kept": "a follower cuts to its high watermark, and what is below it is not compared (B-12)",
    },
    "C2": {"diverged-log-kept": "the answer that says where an epoch ends does not say of which epoch it is (B-13)"},
}
"""Protocol version of Harrow's own broker → kind of cause → what it does, with the flaw's number in the documents."""

GAP_OF_ZOOKEEPER = "(Z-"
"""What is in `allowed_by` of a gap that the designs on ZooKeeper have in steps that later ones do not take."""

_BY_ENDS = ("zk-v1", "zk-v2", "C1")
_STUCK = {
    "inside a batch of its leader's": f"{_COMPARES_ENDS}, also where they have different batches (Z-04 and Z-05)",
    "(Z-13)": "a leader that is alone in the ISR takes no other in (Z-13)",
}
"""What evidence says of an ISR that does not become full → what the designs `_BY_ENDS` are known for."""


def with_known_gaps(evidence: Evidence, causes: Sequence[Cause]) -> tuple[Cause, ...]:
    """Say of each cause that nothing else allowed whether the run's protocol version is known for it."""
    settings = evidence.settings
    version = str(settings.get("generation"))
    known = _KNOWN.get(version, {}) if settings.get("system") == "harrow" else {}

    def gap(cause: Cause) -> str:
        stuck = (what for says, what in _STUCK.items() if any(says in line for line in cause.evidence))
        is_stuck = known and cause.kind == "no-progress" and version in _BY_ENDS
        return next(stuck, "") if is_stuck else known.get(cause.kind, "")

    return tuple(
        replace(cause, allowed_by=_known_for(settings["generation"], gap(cause)))
        if gap(cause) and not cause.allowed_by
        else cause
        for cause in causes
    )


def _known_for(version: str, what: str) -> str:
    return f"Protocol version {version_in_words(version)} is known for it: {what}. It is {KNOWN_GAP}."
