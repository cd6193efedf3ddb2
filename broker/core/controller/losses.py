"""Reports unclean elections: what others have beyond the elected log is given up, acknowledged or not (EL-9, UR-10).

Each is a line in the node's log, is counted, and the last hundred are kept for the admin endpoint. The controller that
decided an election reports it; the one that is active after it knows nothing of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from broker.core.messages import ReplicaLogInfo
from broker.core.metadata.records import RECOVERING, PartitionState
from broker.core.ports.runtime import Runtime

KEPT = 100
"""How many of the last unclean elections are kept."""


class Cause(StrEnum):
    """What allowed an unclean election."""

    SETTING = "setting"
    """`unclean.leader.election.enable`, where no log is looked for: the first active replica leads (UR-5)."""

    RECOVERY = "recovery"
    """An unclean recovery by the partition's strategy (UR-3, UR-4)."""

    REQUEST = "request"
    """ElectLeaders, by an operator (EL-8, UR-14)."""

    LAST_LEADER = "last-leader"
    """The last known leader is back, in version K4 (UR-4)."""


class Grounds(NamedTuple):
    """Why an election may be unclean, and the logs that were compared: (broker, last epoch, log end offset)."""

    cause: Cause = Cause.SETTING
    logs: tuple[tuple[int, int, int], ...] = ()


BY_SETTING = Grounds()


class PotentialLoss(NamedTuple):
    """One unclean election. `before` is the state that it ended; the time is milliseconds since 1970."""

    at_ms: int
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    before: PartitionState
    grounds: Grounds


@dataclass(slots=True)
class PotentialLosses:
    """The last unclean elections of this controller, and how many there were by topic, partition and cause."""

    recent: list[PotentialLoss] = field(default_factory=list)
    counted: dict[tuple[str, int, Cause], int] = field(default_factory=dict)

    def describe(self) -> dict[str, object]:
        """Both for the admin endpoint."""
        return {
            "unclean_elections": [
                {"topic": topic, "partition": partition, "cause": cause.value, "count": count}
                for (topic, partition, cause), count in self.counted.items()
            ],
            "potential_losses": [
                {
                    "at_ms": loss.at_ms,
                    "topic": loss.topic,
                    "partition": loss.partition,
                    "cause": loss.grounds.cause.value,
                    "leader": loss.leader,
                    "leader_epoch": loss.leader_epoch,
                    "previous_leader_epoch": loss.before.leader_epoch,
                    "isr": list(loss.before.isr),
                    "elr": list(loss.before.elr),
                    "last_known_elr": list(loss.before.last_known_elr),
                    "logs": [
                        {"broker": broker, "last_epoch": epoch, "log_end": end}
                        for broker, epoch, end in loss.grounds.logs
                    ],
                }
                for loss in self.recent
            ],
        }


def is_unclean(before: PartitionState, after: PartitionState) -> bool:
    """Whether a change elects a leader that was neither in the ISR nor eligible (EL-9)."""
    return (
        after.leader_epoch > before.leader_epoch
        and after.recovery_state == RECOVERING
        and after.isr == (after.leader,)
        and after.leader not in before.isr + before.elr
    )


def compared(infos: dict[int, ReplicaLogInfo]) -> tuple[tuple[int, int, int], ...]:
    """The logs that a recovery has compared, in the order of the brokers' ids."""
    return tuple(
        (member, info.last_written_leader_epoch, info.log_end_offset) for member, info in sorted(infos.items())
    )


def report(
    runtime: Runtime,
    losses: PotentialLosses,
    partition: tuple[str, int],
    before: PartitionState,
    after: PartitionState,
    grounds: Grounds,
) -> None:
    """UR-10: log, count and keep an unclean election."""
    topic, number = partition
    key = (topic, number, grounds.cause)
    losses.counted[key] = losses.counted.get(key, 0) + 1
    loss = PotentialLoss(runtime.wall_clock_ms, topic, number, after.leader, after.leader_epoch, before, grounds)
    losses.recent = [*losses.recent[1 - KEPT :], loss]
    ends = {broker: end for broker, _, end in grounds.logs}
    known = f" with log end {ends[after.leader]}, the longest of {ends}" if after.leader in ends else ""
    runtime.log(
        "warning",
        f"{topic}-{number}: unclean election by {grounds.cause.value}: {after.leader} leads epoch "
        f"{after.leader_epoch}{known}; records may be lost (until now ISR {list(before.isr)}, ELR {list(before.elr)}, "
        f"last known ELR {list(before.last_known_elr)})",
    )
