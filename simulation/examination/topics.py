"""The topics of the examination, which it creates itself, so that it knows all about them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from broker.core.log.compression import DECOMPRESSED_BYTES_MAX
from broker.core.messages import CreateTopicsRequest, NewTopic, ProducePartition
from broker.core.messages.errors import ErrorCode
from simulation.engine.cluster import SimulatedCluster
from simulation.examination.examiner import Examiner
from simulation.workload.batches import Producer, encode_values

PLAIN, STAMPED, KEYED, FOLDED = "exam-plain", "exam-stamped", "exam-keyed", "exam-folded"
BATCH_BYTES_MAX = 400
_BATCHES, _FIRST_MS, _EVERY_MS = 7, 1_000, 500

_CONFIGS = {
    PLAIN: (
        ("segment.bytes", "300"),
        ("index.interval.bytes", "100"),
        ("max.message.bytes", str(BATCH_BYTES_MAX)),
        ("message.timestamp.after.max.ms", "3600000"),
    ),
    STAMPED: (("message.timestamp.type", "LogAppendTime"), ("compression.type", "gzip")),
    KEYED: (("cleanup.policy", "compact"), ("compression.type", "uncompressed")),
    FOLDED: (),
}
"""The settings of each topic."""

ALL = (PLAIN, STAMPED, KEYED)
"""Those that take what any client sends."""

TOO_LARGE_FROM_MS = 1_000
"""The timestamp of the first record of `unfolding_too_far`."""


def replicas_of(brokers: Sequence[int], partition: int) -> tuple[int, ...]:
    """Three brokers, or all if there are fewer, from another one on for each partition."""
    turned = (*brokers[partition % len(brokers) :], *brokers[: partition % len(brokers)])
    return turned[:3]


def configs_of(topic: str) -> dict[str, str]:
    """The settings that a topic of the examination has of its own."""
    return dict(_CONFIGS[topic])


@cache
def unfolding_too_far() -> bytes:
    """A small batch of three records, a millisecond apart, that unfolds to more than a broker may spend on it."""
    padding = DECOMPRESSED_BYTES_MAX
    return encode_values(
        (1, 2, 3), Producer(), compression="gzip", first_ms=TOO_LARGE_FROM_MS, padding_bytes=padding, keyed=True
    )


def create(examiner: Examiner, cluster: SimulatedCluster, brokers: Sequence[int], *wanted: str) -> None:
    """Create these topics, of two partitions each."""
    for topic in wanted:
        configs = _CONFIGS[topic]
        assignments = tuple((number, replicas_of(brokers, number)) for number in range(2))
        request = CreateTopicsRequest((NewTopic(topic, assignments=assignments, configs=configs),), 5_000)
        examiner.errors(cluster, brokers[0], f"creation of {topic}", request, ErrorCode.NONE)


def fill(examiner: Examiner, cluster: SimulatedCluster) -> None:
    """Write enough batches to the first partition of `PLAIN` for several segments."""
    for number in range(_BATCHES):
        records = encode_values(tuple(range(1 + number % 3)), Producer(), first_ms=_FIRST_MS + number * _EVERY_MS)
        examiner.produce(cluster, "a batch", ProducePartition(PLAIN, 0, records), ErrorCode.NONE)
