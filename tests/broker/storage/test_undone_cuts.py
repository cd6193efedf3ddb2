"""A power failure may bring back what a follower cut off: its high watermark says nothing of it (HW-7)."""

from __future__ import annotations

import pytest

from broker.core.log.checkpoints import RewrittenRange
from tests.support.cluster import Cluster

FOLLOWER = 3


@pytest.mark.parametrize(("first_cut", "high_watermark"), [(None, 6), (2, 2), (9, 6)])
def test_after_an_unclean_stop_a_high_watermark_above_a_cut_is_not_trusted(
    first_cut: int | None, high_watermark: int
) -> None:
    cluster = Cluster(3)
    cluster.create_topic()
    for value in range(6):
        assert cluster.produce(cluster.view()["leader"], value) == 0
    cluster.run_until(lambda: cluster.replica(FOLLOWER).get("high_watermark") == 6)
    cluster.run(6_000)  # it is checkpointed
    files = cluster.machines[FOLLOWER].files
    cluster.kill(FOLLOWER)
    if first_cut is not None:
        RewrittenRange(files, "log-0").extend(first_cut, 10)
    cluster.isolate(FOLLOWER)
    cluster.start(FOLLOWER)
    assert cluster.replica(FOLLOWER)["high_watermark"] == high_watermark


def test_a_high_watermark_that_was_lowered_stays_so_for_the_next_start() -> None:
    cluster = Cluster(3)
    cluster.create_topic()
    for value in range(6):
        assert cluster.produce(cluster.view()["leader"], value) == 0
    cluster.run_until(lambda: cluster.replica(FOLLOWER).get("high_watermark") == 6)
    cluster.run(6_000)  # it is checkpointed
    files = cluster.machines[FOLLOWER].files
    cluster.kill(FOLLOWER)
    cut = RewrittenRange(files, "log-0")
    cut.extend(2, 6)
    cluster.isolate(FOLLOWER)
    cluster.start(FOLLOWER)
    cluster.kill(FOLLOWER)
    cut.forget(6)  # as soon as all is flushed
    cluster.start(FOLLOWER)
    assert (cluster.replica(FOLLOWER)["high_watermark"], cluster.replica(FOLLOWER)["log_end"]) == (2, 6)
