"""Tells which records may be missing from the final reads because they were deleted: as asked, or by retention."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from simulation.scenario.clocks import clocks_ahead_ms
from simulation.scenario.phases import SimulationOutcome
from simulation.workload.recording import OperationRow, SendRow
from simulation.workload.side_settings import LARGEST_SEGMENT_BYTES

_NS_PER_MS = 1_000_000
_CUT_BYTES_MAX = 2_000
"""How much of a log, at its end, may have been cut off since retention last found it too large."""


@dataclass(frozen=True)
class Deletions:
    """What was deleted in a simulation."""

    outcome: SimulationOutcome

    def log_start(self, partition: int) -> int:
        """Where the log of a partition begins at the end of the run, on the broker where it begins latest."""
        return max((log.start for (_, number), log in self.outcome.logs.items() if number == partition), default=0)

    def may_be_missing(self, send: SendRow, operation: OperationRow, read_at: Collection[tuple[int, int]]) -> bool:
        """Whether a record was deleted, or may have been, if its offset is unknown.

        It must be before the start of its log, and either an operator has asked for that, or retention permits it.
        """
        known = [position[1] for position in read_at] if send.offset is None else [send.offset]
        offset = min(known, default=0)
        if self.log_start(send.partition) <= offset:
            return False
        return self.outcome.deleted.get(send.partition, 0) > offset or self._may_expire(send.partition, operation)

    def _may_expire(self, partition: int, operation: OperationRow) -> bool:
        """Whether any clock may have found a record of this operation too old, or the log too large with it."""
        configuration = self.outcome.configuration
        if configuration.retention_ms:
            earliest_ms = operation.invoked_ns // _NS_PER_MS + clocks_ahead_ms(configuration)[0]
            latest_ms = self.outcome.virtual_ms + clocks_ahead_ms(configuration)[1] + self.outcome.clocks_jumped_ms
            return earliest_ms + configuration.retention_ms < latest_ms or bool(configuration.retention_bytes)
        logs = [log for (_, number), log in self.outcome.logs.items() if number == partition]
        segment = max(configuration.segment_bytes, LARGEST_SEGMENT_BYTES if configuration.changing_settings else 0)
        is_left = max((len(log.data) for log in logs), default=0) + segment + _CUT_BYTES_MAX
        return 0 < configuration.retention_bytes <= is_left
