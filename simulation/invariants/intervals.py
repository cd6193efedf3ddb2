"""Checks that what brokers and controllers look at every so often is not looked at sooner, and is again (P-71).

When leaders are to be balanced, they are (P-80).

A check that comes too soon costs more than anybody has asked for, and may conclude too early that somebody is silent.
One that is not planned again is the last one.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from broker.core.broker_node.groups.expiry import EXPIRE
from broker.core.broker_node.groups.state import TIMER
from broker.core.broker_node.isr_changes import SHRINK
from broker.core.broker_node.requests.deletion import IDLE_PRODUCERS, RETENTION
from broker.core.broker_node.state import BrokerState
from broker.core.broker_node.storage import CHECKPOINT
from broker.core.controller.membership import SESSIONS
from broker.core.controller.requests.leader_elections import BALANCE
from broker.core.controller.state import ControllerState
from broker.core.messages.clients import NO_LEADER
from broker.core.quorum.elections import CHECK
from simulation.invariants.knowledge import BrokerMirror, Knowledge, VoterMirror
from simulation.invariants.properties import Violation

_OF_BROKERS = ((SHRINK,), (RETENTION,), (IDLE_PRODUCERS,), (CHECKPOINT,))
_OF_ACTIVE_CONTROLLERS = ((SESSIONS,), (BALANCE,))

READ_MS = 1
"""Clocks are read in whole milliseconds: two readings may be one less apart than what has passed."""


def own(key: Hashable) -> Hashable:
    """A role's key of a timer; in a node of both roles it has the number of the role before it."""
    return key[1] if isinstance(key, tuple) and isinstance(key[0], int) else key


def of_broker(known: Knowledge, broker: BrokerMirror, state: BrokerState, key: Hashable) -> None:
    """P-71, when a timer of a broker has fired."""
    of_groups = [
        (TIMER, EXPIRE, shard.partition, shard.leader_epoch)
        for shard in state.coordinator.shards.values()
        if shard.load_from is None
    ]
    _check_planned(known, broker.broker_id, f"broker {broker.broker_id}", (*_OF_BROKERS, *of_groups))
    settings = state.settings
    match key:
        case (kind,) if kind == SHRINK:
            interval_ms = settings.replica_lag_time_max_ms // 2
        case (kind,) if kind == RETENTION:
            interval_ms = settings.log_retention_check_interval_ms
        case (kind,) if kind == IDLE_PRODUCERS:
            interval_ms = settings.producer_id_expiration_check_interval_ms
        case (kind,) if kind == CHECKPOINT:
            interval_ms = settings.high_watermark_checkpoint_interval_ms
        case _:
            return
    now_ms = known.clock_ms(broker.broker_id)
    before_ms = broker.asking.checked_ms.get(key)
    broker.asking.checked_ms[key] = now_ms
    _compare(f"broker {broker.broker_id}", key, before_ms, now_ms, interval_ms)


def of_controller(
    known: Knowledge, voter: VoterMirror, state: ControllerState, incarnation: int, key: Hashable, *, decided: bool
) -> None:
    """P-71 and P-80, when a timer of a controller has fired, which may have `decided` something then.

    A controller that leads anew begins anew. After it has fenced a broker whose session is over it looks for the next
    at once.
    """
    if state.active:
        _check_planned(known, voter.holder, f"controller {voter.holder}", _OF_ACTIVE_CONTROLLERS)
        if key == (BALANCE,):
            _check_balanced(state)
    match key:
        case (kind,) if kind == CHECK:
            interval_ms = state.quorum.settings.controller_quorum_fetch_timeout_ms // 2
        case (kind,) if kind == SESSIONS:
            interval_ms = state.settings.broker_heartbeat_interval_ms // 2
        case (kind,) if kind == BALANCE:
            interval_ms = state.settings.leader_imbalance_check_interval_ms
        case _:
            return
    now_ms = known.clock_ms(voter.holder)
    led = incarnation, state.quorum.epoch
    before, before_ms = voter.checked_ms.get(key, (led, None))
    voter.checked_ms[key] = led, None if decided else now_ms
    _compare(f"controller {voter.holder}", key, before_ms if before == led else None, now_ms, interval_ms)


def _compare(who: str, key: Hashable, before_ms: int | None, now_ms: int, interval_ms: int) -> None:
    if before_ms is not None and now_ms - before_ms < interval_ms - READ_MS:
        raise Violation(
            "P-71",
            f"{who} makes its check {key} after {now_ms - before_ms} ms; the interval is {interval_ms} ms",
        )


def _check_planned(known: Knowledge, node_id: int, who: str, keys: Sequence[Hashable]) -> None:
    """P-71: each of these checks comes again."""
    timers = known.cluster.machines[node_id].timers
    missing = [key for key in keys if key not in timers]
    if not missing:
        return
    planned = {own(key) for key in timers}
    for key in missing:
        if key not in planned:
            raise Violation("P-71", f"{who} goes on, and has not planned its next check {key}")


def _check_balanced(state: ControllerState) -> None:
    """P-80, when an active controller has just looked for preferred leaders (EL-7)."""
    if not state.settings.auto_leader_rebalance_enable:
        return
    for topic in state.image.topics.values():
        for number, partition in topic.partitions.items():
            preferred = partition.replicas[0]
            if partition.leader in (NO_LEADER, preferred) or preferred not in partition.isr:
                continue
            if state.image.is_active(preferred) and preferred not in partition.offline:
                raise Violation(
                    "P-80",
                    f"controller {state.settings.node_id} has balanced leaders, and broker {partition.leader} leads "
                    f"{topic.name}-{number}, of which broker {preferred} is the preferred leader, active and in sync",
                )
