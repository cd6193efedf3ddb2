"""The rows of a small history, joined for the oracle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.checkers.histories import MS, History

Row = dict[str, Any]


@dataclass
class Rows:
    """The rows of a history, each with the columns of its operation."""

    sends: list[Row]
    polls: list[Row]
    reads: list[Row]
    ends: list[Row]
    logs: list[Row]
    commits: list[Row]
    answers: list[Row]
    ownerships: list[Row]
    samples: list[Row]
    healed_ns: int
    bound_ns: int

    @classmethod
    def of(cls, history: History) -> Rows:
        """Join them."""
        operations = {row["op"]: row for row in history.tables["operations"]}

        def joined(table: str) -> list[Row]:
            return [{**operations[row["op"]], **row} for row in history.tables[table]]

        of_groups = joined("commits")
        return cls(
            joined("sends"),
            joined("polls"),
            joined("reads"),
            history.tables["ends"],
            history.tables["logs"],
            [row for row in of_groups if row["kind"] == "commit" and row["status"] != "fail"],
            [row for row in of_groups if row["kind"] == "committed" and row["status"] == "ok"],
            history.tables["ownerships"],
            history.tables["cluster"],
            healed_ns := history.tables["phases"][0]["started_ns"],
            healed_ns + history.tables["runs"][0]["unavailable_after_ms"] * MS,
        )

    def reads_of(self, value: int) -> list[Row]:
        return [read for read in self.reads if read["value"] == value]

    def ok_reads_of(self, value: int) -> list[Row]:
        return [read for read in self.reads_of(value) if read["status"] == "ok"]

    def in_final(self, value: int) -> bool:
        return any(read["phase"] == "final" for read in self.ok_reads_of(value))

    def is_complete(self) -> bool:
        """Whether a process read from offset 0, step by step, to the agreed end."""
        return bool(self.ends) and self.ends[0]["agreed"] and self.final_read_to() >= self.ends[0]["end_offset"]

    def final_read_to(self) -> int:
        """How far a process got from offset 0, step by step; 0 for a partition without an end."""
        if not self.ends:
            return 0
        final = [poll for poll in self.polls if poll["phase"] == "final" and poll["status"] == "ok"]
        furthest = 0
        for process in {poll["process"] for poll in final}:
            reached = 0
            own = [poll for poll in final if poll["process"] == process]
            for _ in own:
                reached = max([reached, *(p["next_position"] for p in own if p["position"] <= reached)])
            furthest = max(furthest, reached)
        return furthest

    def is_passed_over(self, value: int) -> bool:
        """Whether the final reads went on from the start over every known offset of a value."""
        sent = [send["offset"] for send in self.sends if send["value"] == value and send["offset"] is not None]
        return max([*sent, *(read["offset"] for read in self.reads_of(value))]) < self.final_read_to()

    def values(self) -> set[int]:
        return {row["value"] for row in (*self.sends, *self.reads) if row["value"] is not None}

    def is_committed(self, send: Row) -> bool:
        return send["status"] == "ok" or (send["status"] == "info" and bool(self.ok_reads_of(send["value"])))

    def happened(self) -> list[Row]:
        """Sends at known offsets that have happened: acknowledged, or resolved."""
        found = [s for s in self.sends if s["status"] == "ok" and s["offset"] is not None]
        for send in self.sends:
            reads = self.ok_reads_of(send["value"])
            offsets = {read["offset"] for read in self.reads_of(send["value"])}
            if send["status"] == "info" and reads and len(offsets) == 1:
                known_ns = max(min(read["completed_ns"] for read in reads), send["invoked_ns"])
                served = [read["completed_ns"] for read in reads if read["node"] is not None]
                served_ns = [max(completed_ns, send["invoked_ns"]) for completed_ns in served]
                found.append({**send, "offset": offsets.pop(), "completed_ns": known_ns, "served_ns": served_ns})
        return found
