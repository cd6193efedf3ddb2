"""The kinds of fault, one module per family."""

from __future__ import annotations

from nemesis.faults.base import Kind
from nemesis.faults.kill import KILL
from nemesis.faults.page_cache_loss import PAGE_CACHE_LOSS
from nemesis.faults.partition import HALVES, ISOLATE, ONE_WAY
from nemesis.faults.pause import PAUSE
from nemesis.faults.restart import RESTART

KINDS: dict[str, Kind] = {kind.name: kind for kind in (KILL, PAUSE, ISOLATE, HALVES, ONE_WAY, PAGE_CACHE_LOSS, RESTART)}
"""All kinds by name, in the order in which they are listed."""
