"""Checks that what brokers and controllers look at every so often is not looked at sooner (P-71).

A check that comes too soon costs more than anybody has asked for, and may conclude too early that somebody is silent.
"""

from __future__ import annotations

from collections.abc import Hashable

from broker.core.broker_node.isr_changes import SHRINK
from broker.core.broker_node.requests.deletion import IDLE_PRODUCERS, RETENTION
from broker.core.broker_node.state import BrokerState
from broker.core.broker_node.storage import CHECKPOINT
from broker.core.controller.membership import SESSIONS
from broker.core.controller.requests.leader_elections import BALANCE
from broker.core.controller.state import ControllerState
from broker.core.quorum.elections import CHECK
from simulation.invariants.knowledge import BrokerMirror, Knowledge, VoterMirror
from simulation.invariants.properties import Violation

READ_MS = 1
"""Clocks are read in whole milliseconds: two readings may be one less apart than what has passed."""


def own(key: Hashable) -> Hashable:
    """A role's key of a timer; in a node of both roles it has the number of the role before it."""
    return key[1] if isinstance(key, tuple) and isinstance(key[0], int) else key


def of_broker(known: Knowledge, broker: BrokerMirror, state: BrokerState, key: Hashable) -> None:
    """P-71, when a timer of a broker has fired."""
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
    """P-71, when a timer of a controller has fired, which may have `decided` something then.

    A controller that leads anew begins anew. After it has fenced a broker whose session is over it looks for the next
    at once.
    """
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
