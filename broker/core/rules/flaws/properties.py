"""Names of the protocol's properties, by id: what flaws break, and what observer, search and checkers look for.

Their statements are data in history/protocol.toml, which docs/protocol.md and reports show.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

PROPERTIES: Mapping[str, str] = MappingProxyType(
    {
        "P-1": "leader completeness",
        "P-2": "candidate completeness",
        "P-3": "log matching",
        "P-4": "committed stability",
        "P-5": "replication quorum superset",
        "P-6": "no committed truncation",
        "P-7": "unclean exclusion",
        "P-8": "one leader per epoch",
        "P-9": "high watermark monotone",
        "P-10": "high watermark bound",
        "P-11": "no read above the high watermark",
        "P-12": "acked durability",
        "P-13": "real-time order",
        "P-14": "no duplicates",
        "P-15": "min ISR on ack",
        "P-16": "ISR eligibility",
        "P-17": "ELR shape",
        "P-18": "min ISR recovery quorum",
        "P-19": "epoch sanity",
        "P-20": "metadata agreement",
        "P-21": "epoch cache equals log",
        "P-22": "one ISR change at a time",
        "P-23": "reassignment safety",
        "P-24": "leader epochs monotone",
        "P-25": "longest log elected",
        "P-26": "lookup by time",
        "P-27": "assigned logs stay",
        "P-28": "producers equal log",
        "P-29": "min ISR as published",
        "P-30": "checkpoints are recent",
        "P-31": "refusals have a reason",
        "P-32": "settings as published",
        "P-33": "true errors",
        "P-D1": "deleted as asked or permitted",
        "P-G1": "committed offsets stay",
        "P-G2": "generations grow",
        "P-G3": "assigned as sent",
        "P-G4": "old members are fenced",
        "P-A1": "administrators get true answers",
        "P-T1": "topics as asked for",
        "P-T2": "new topics are new",
        "P-R1": "quorum election safety",
        "P-R2": "one known quorum leader",
        "P-R3": "quorum log matching and durability",
        "P-R4": "quorum high watermark",
        "P-R5": "vote once",
        "V-1": "brokers run",
        "V-2": "metadata arrives",
        "V-3": "eligible replicas lead",
        "V-4": "an idle cluster is whole",
        "V-5": "every produce ends",
        "V-6": "reassignments end",
        "V-7": "ISR changes end",
        "V-9": "the quorum elects",
        "V-11": "groups settle",
        "V-12": "deleted logs go",
        "V-13": "laggards leave the ISR",
        "V-14": "replicas return to the ISR",
    }
)
