"""Which version of the system each node ran, and when: in a run with an upgrade, as the nodes have reported it."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import NamedTuple

from reports.data.stored_run import Run


class VersionSpan(NamedTuple):
    """A node was first seen to run a version at `start_ns`, and another one, or nothing more, at `end_ns`."""

    node: int
    version: str
    start_ns: int
    end_ns: int


def version_spans(run: Run) -> dict[int, list[VersionSpan]]:
    """Return the versions of each node in the order of their times; empty for a run without an upgrade."""
    seen: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for row in run.tables["versions"].to_pylist():
        if None not in (row["node"], row["at_ns"], row["version"]):
            seen[row["node"]].append((row["at_ns"], row["version"]))
    spans = {}
    for node, changes in sorted(seen.items()):
        end = (max(run.span_ns[1], changes[-1][0]), "")
        spans[node] = [
            VersionSpan(node, version, start_ns, end_ns)
            for (start_ns, version), (end_ns, _) in pairwise([*sorted(changes), end])
        ]
    return spans


def versions_of(run: Run) -> list[str]:
    """Return the versions of the run in the order in which they were first seen."""
    spans = [span for of_node in version_spans(run).values() for span in of_node]
    return list(dict.fromkeys(span.version for span in sorted(spans, key=lambda span: span.start_ns)))
