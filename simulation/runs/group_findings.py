"""Finds anomalies of the consumer group in the clients' history: two owners of a partition, commits that got lost.

Of the answers only those of the final phase are judged: before it a deposed coordinator may give an old one (BL-10),
which the observer tells apart and the checkers on Spark excuse.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulation.workload.recording import CommitRow, OperationRow, OwnershipRow, SimulatedHistory

_FOREVER = 1 << 62


def group_anomalies(history: SimulatedHistory) -> Iterator[tuple[str, str]]:
    """The name and a description of each anomaly, named as in `history.anomalies`."""
    yield from _double_ownership(history.ownerships)
    operations = {row.op: row for row in history.operations}
    commits = [(row, operations[row.op]) for row in history.commits]
    for asked, operation in commits:
        if asked.generation is None and operation.phase == "final":
            of_partition = [
                (row, sent)
                for row, sent in commits
                if row.generation is not None and (row.group, row.partition) == (asked.group, asked.partition)
            ]
            yield from _lost_commit(asked, operation, of_partition)


def _double_ownership(ownerships: list[OwnershipRow]) -> Iterator[tuple[str, str]]:
    latest: dict[tuple[str, int, int], OwnershipRow] = {}
    for row in sorted(ownerships, key=lambda row: (row.since_ns, row.member)):
        key = row.group, row.partition, row.generation
        before = latest.get(key)
        until_ns = 0 if before is None else _until(before)
        if before is not None and before.member != row.member and row.since_ns < until_ns:
            what = (
                f"{row.member} got partition {row.partition} in generation {row.generation} of {row.group} at "
                f"{row.since_ns} ns; {before.member} owned it in the same generation until {until_ns} ns"
            )
            yield "double-ownership", what
        if before is None or _until(row) > until_ns:
            latest[key] = row


def _until(row: OwnershipRow) -> int:
    return row.since_ns if row.until_ns is None else row.until_ns


def _lost_commit(
    asked: CommitRow, operation: OperationRow, commits: list[tuple[CommitRow, OperationRow]]
) -> Iterator[tuple[str, str]]:
    """An answer that is not the last acknowledged commit, nor one that may have taken effect after it."""
    acknowledged = [
        (sent.invoked_ns, row)
        for row, sent in commits
        if sent.status == "ok" and sent.completed_ns is not None and sent.completed_ns < operation.invoked_ns
    ]
    if not acknowledged:
        return
    last_ns, last = max(acknowledged, key=lambda found: found[0])
    ends_ns = [
        _FOREVER if sent.completed_ns is None else sent.completed_ns
        for row, sent in commits
        if row.offset == asked.offset and sent.status != "fail"
    ]
    if asked.offset is None or max(ends_ns, default=-1) < last_ns:
        what = (
            f"at the end {asked.offset} is committed for partition {asked.partition} by {asked.group}; {last.member} "
            f"had committed {last.offset} in generation {last.generation}, which was acknowledged"
        )
        yield "lost-commit", what
