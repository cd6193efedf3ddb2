"""The logs of all replicas after a run: the table `logs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from harness.environments.base import NodePlan, System
from workloads.values import decode_value


def dump_logs(
    system: System,
    plans: Sequence[NodePlan],
    record: Callable[[Mapping[str, object]], None],
    go_on: Callable[[], None],
) -> None:
    """Record every record of every replica. A broker that does not answer is left out.

    `go_on` is called for every record and may raise to end the dump.
    """
    for plan in plans:
        for replica in system.replicas(plan):
            for item in system.log(plan, replica.topic, replica.partition):
                go_on()
                record(
                    {
                        "broker": plan.node_id,
                        "topic": replica.topic,
                        "partition": replica.partition,
                        "offset": item.offset,
                        "leader_epoch": item.leader_epoch,
                        "value": decode_value(item.value),
                        "crc": item.crc,
                        "high_watermark": replica.high_watermark,
                    }
                )
