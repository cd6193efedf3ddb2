"""Computes where a follower truncates its log when the leader reports divergence."""

from __future__ import annotations

from broker.core.log.epoch_cache import EpochCache


def truncation_offset(own: EpochCache, own_end: int, diverging_epoch: int, diverging_end: int) -> int:
    """TR-1: the new log end offset of a follower whose leader reported that `diverging_epoch` ends at `diverging_end`.

    When the follower's own nearest epoch is older than the leader's, this is only a step: the next fetch names that
    older epoch and is answered with the next step, until the two logs agree.

    ```
    leader    1 1 2 2            fetch(4, last epoch 3) → diverging (2, 4)
    follower  1 1 3 3            own nearest epoch to 2 is 1, which ends at 2 → cut to 2
    ```
    """
    found = own.end_offset(diverging_epoch, own_end)
    if found is None:
        return min(diverging_end, own_end)
    epoch, end = found
    return min(end, diverging_end, own_end) if epoch == diverging_epoch else min(end, own_end)
