"""Checks that every sequence number of an idempotent producer is committed once and in order (P-14)."""

from __future__ import annotations

from simulation.invariants.ghost import Ghost
from simulation.invariants.knowledge import Knowledge

_MASK = 0x7FFFFFFF


def committed(known: Knowledge, ghost: Ghost, first: int) -> None:
    """P-14: check the batches that were committed from an offset on."""
    offset, end = first, len(ghost.committed)
    while offset < end:
        batch = ghost.committed[offset]
        if batch is None:
            offset += 1
            continue
        offset = batch.last + 1
        if batch.producer_id < 0 or batch.control:
            continue
        key = (batch.producer_id, batch.producer_epoch)
        last = ghost.sequences.get(key)
        expected = batch.first_sequence if last is None else (last + 1) & _MASK
        if batch.first_sequence != expected:
            back = (expected - batch.first_sequence) & _MASK <= _MASK // 2
            if back or ghost.acks_all_only:
                known.fail(
                    ghost,
                    "P-14",
                    f"producer {batch.producer_id} committed sequence number {batch.first_sequence} with {batch}, "
                    f"{'a second time' if back else 'and leaves a gap'}: {expected} was next",
                )
        ghost.sequences[key] = (batch.first_sequence + batch.last - batch.base) & _MASK
