"""Registers all kinds of fault. The order decides what a seed draws."""

from __future__ import annotations

from nemesis.faults.administration import ADMINISTRATION
from nemesis.faults.base import FaultKind
from nemesis.faults.disk_damage import DISK_DAMAGE
from nemesis.faults.disk_trouble import DISK_TROUBLE, PAGE_CACHE_LOSS, TORN_PAGE_CACHE_LOSS
from nemesis.faults.partition import (
    BRIDGE,
    BROKERS_FROM_CONTROLLERS,
    CLIENTS_FROM_BROKERS,
    FLAPPING,
    HALVES,
    ISOLATE,
    MAJORITY_RING,
    ONE_WAY,
)
from nemesis.faults.process import CRASH_LOOP, KILL, PAUSE, POWER_CUT, RESTART, ROLLING_RESTART
from nemesis.faults.shaping import SHAPING
from nemesis.faults.starvation import CPU_STARVATION, OUT_OF_MEMORY
from nemesis.faults.upgrade import UPGRADE
from nemesis.faults.wall_clock import CLOCKS

_USUAL = (KILL, PAUSE, ISOLATE, HALVES, ONE_WAY, PAGE_CACHE_LOSS, RESTART)
_PROCESS = (POWER_CUT, CRASH_LOOP, ROLLING_RESTART, CPU_STARVATION, OUT_OF_MEMORY)
_NETWORK = (MAJORITY_RING, BRIDGE, BROKERS_FROM_CONTROLLERS, CLIENTS_FROM_BROKERS, FLAPPING, *SHAPING)
_STORAGE = (TORN_PAGE_CACHE_LOSS, *DISK_TROUBLE, *DISK_DAMAGE)

KINDS: dict[str, FaultKind] = {
    kind.name: kind for kind in (*_USUAL, *_PROCESS, *_NETWORK, *_STORAGE, *CLOCKS, *ADMINISTRATION, UPGRADE)
}
"""All kinds by name, in the order in which they are listed and drawn."""

USUAL: tuple[str, ...] = tuple(kind.name for kind in _USUAL)
"""The kinds of a run that names none: those that a run of a minute has time for and that find most."""
