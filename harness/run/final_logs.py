"""Dumps the logs of all replicas after a run into the table `logs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from harness.environments.base import NodePlan, System
from workloads.values import decode_value


def dump_logs(
    system: System,
    plans: Sequence[NodePlan],
    record: Callable[[Mapping[str, object]], None],
    check_stop: Callable[[], None],
) -> None:
    """Write every record of every replica to the table. A broker that does not answer is left out.

    `check_stop` is called for every record and may raise to end the dump.
    """
    for plan in plans:
        for replica in system.replicas(plan):
            for item in system.log(plan, replica.topic, replica.partition):
                check_stop()
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
