"""Compositions: several faults that belong together, on one partition, each timed by what those before it bring about.

Three of them are in the deck of every run whose kinds they consist of:

    lag          a follower falls behind; while it is behind, the replicas that have everything fail.
                 Which replica is elected then?
    succession   a follower is cut off from the other brokers, the leader fails, and soon after all other in-sync
                 replicas: the follower must lead with the log that it kept when its leader changed
    interregnum  the active controller fails, and while the others elect, so does the leader of a partition
                 (with several controllers)

The others, *recipes*, have a name for `--faults`; the family `recipe` is all of them. The simulation has recipes of the
same names, in which it can hold single connections too (`simulation/faults/recipes.py`). A recipe says what it consists
of; it can be injected where all of that can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from nemesis.capabilities.cluster import Capability
from nemesis.draws import Draws
from nemesis.faults import KINDS
from nemesis.faults.base import FaultKind
from nemesis.schedule import ScheduledFault
from nemesis.targets import SAME, FaultTarget, Role

LAG_MS = 4_500
"""Long enough for a follower to leave the ISR, with the timeouts of a run (3 s)."""

_FENCED_MS = 4_000
"""Long enough for a dead broker to be fenced, and for another to lead."""

_HOLDERS = ("pause", "isolate", "kill")
"""Kinds that make a follower fall behind."""

_STRIKERS = ("kill", "pause", "isolate")
"""Kinds that take replicas away without losing data."""


def compositions(wanted: Sequence[str], controllers: int) -> list[str]:
    """The compositions that consist of wanted kinds alone."""
    names = []
    if set(wanted) & set(_HOLDERS) and set(wanted) & set(_STRIKERS):
        names.append("lag")
    if "isolate" in wanted and set(wanted) & set(_STRIKERS):
        names.append("succession")
    if controllers > 1 and set(wanted) & set(_STRIKERS):
        names.append("interregnum")
    return names


def _lag(draws: Draws, wanted: Sequence[str], partitions: int) -> list[ScheduledFault]:
    partition = draws.below(partitions)
    holder = draws.choice([name for name in _HOLDERS if name in wanted])
    striker = draws.choice([name for name in _STRIKERS if name in wanted])
    strike_ms = LAG_MS + draws.below(1_000)
    overlap_ms = draws.between(100, 600)
    follower = FaultTarget("in-sync-follower", partition, draws.below(1 << 30))
    rest = FaultTarget("in-sync-replicas", partition)
    return [
        ScheduledFault(0, 0, holder, follower, strike_ms + overlap_ms, _from_all(holder)),
        ScheduledFault(0, strike_ms, striker, rest, draws.between(5_000, 7_000), _from_all(striker), beside=True),
    ]


def _succession(draws: Draws, wanted: Sequence[str], partitions: int) -> list[ScheduledFault]:
    partition = draws.below(partitions)
    striker = draws.choice([name for name in _STRIKERS if name in wanted])
    follower = FaultTarget("in-sync-follower", partition, draws.below(1 << 30))
    leader, rest = FaultTarget("leader", partition), FaultTarget("in-sync-replicas", partition)
    first_ms = draws.between(100, 500)
    second_ms = first_ms + draws.between(3_800, 5_000)
    return [
        ScheduledFault(0, 0, "isolate", follower, second_ms + 4_000, {"from": "brokers"}),
        ScheduledFault(0, first_ms, striker, leader, second_ms + 1_000, _from_all(striker), beside=True),
        ScheduledFault(0, second_ms, striker, rest, 4_500, _from_all(striker), beside=True),
    ]


def _interregnum(draws: Draws, wanted: Sequence[str], partitions: int) -> list[ScheduledFault]:
    first, second = (draws.choice([name for name in _STRIKERS if name in wanted]) for _ in range(2))
    leader = FaultTarget("leader", draws.below(partitions))
    strike_ms = draws.between(100, 2_000)
    return [
        ScheduledFault(0, 0, first, FaultTarget("active-controller"), strike_ms + 4_500, _from_all(first)),
        ScheduledFault(0, strike_ms, second, leader, draws.between(4_000, 6_000), _from_all(second), beside=True),
    ]


def _from_all(kind: str) -> dict[str, str]:
    return {"from": "all"} if kind == "isolate" else {}


COMPOSED: Final[Mapping[str, Callable[[Draws, Sequence[str], int], list[ScheduledFault]]]] = {
    "lag": _lag,
    "succession": _succession,
    "interregnum": _interregnum,
}
"""Name of a composition -> what draws it, from the wanted kinds and the number of partitions."""


# --- recipes ---------------------------------------------------------------------------------------------------------


class Recipe(NamedTuple):
    """One recipe: the kinds that it consists of, and what draws its faults for one partition."""

    parts: tuple[str, ...]
    draw: Callable[[Draws, int], list[ScheduledFault]]


def _fault(
    at_ms: int, kind: str, target: FaultTarget, lasts_ms: int, parameters: Mapping[str, str] | None = None
) -> ScheduledFault:
    """A fault of a recipe, which fires beside those before it; the first one of each does not."""
    return ScheduledFault(0, at_ms, kind, target, lasts_ms, parameters or {}, beside=at_ms > 0)


def _of(draws: Draws, role: Role, partition: int) -> FaultTarget:
    return FaultTarget(role, partition, draws.below(1 << 30))


def _min_isr_raised_then_shrunk(draws: Draws, partition: int) -> list[ScheduledFault]:
    """While min ISR is as high as there are replicas a follower is lost, and soon after it the leader."""
    after_ms = draws.between(100, 1_500)
    then_ms = after_ms + draws.between(100, LAG_MS)
    lasts_ms = then_ms + draws.between(2_000, 5_000)
    return [
        _fault(0, "raised-min-isr", _of(draws, "in-sync-follower", partition), lasts_ms, {"pick": str(partition)}),
        _fault(after_ms, "isolate", _of(draws, "in-sync-follower", partition), lasts_ms, {"from": "all"}),
        _fault(then_ms, "kill", _of(draws, "leader", partition), draws.between(1_500, 5_000)),
    ]


def _restarted_then_lost(draws: Draws, partition: int) -> list[ScheduledFault]:
    """A node stops in good order, and loses its page cache as soon as it serves again."""
    role: Role = draws.choice(("leader", "in-sync-follower"))
    restart = _fault(0, "restart", _of(draws, role, partition), draws.between(500, 1_500))
    same = FaultTarget(SAME, partition, entry=1)
    lost_at_ms = restart.duration_ms + 1  # not beside the restart, so as soon as the node serves again
    return [restart, ScheduledFault(0, lost_at_ms, "page-cache-loss", same, draws.between(500, 2_500), {})]


def _isr_change_overtaken(draws: Draws, partition: int) -> list[ScheduledFault]:
    """A leader wants a follower out of the ISR, or in again, and cannot say so until another leads, which dies too."""
    returning = bool(draws.below(2))
    mute_at_ms = draws.between(500, 2_500) + (LAG_MS if returning else 0)
    back_at_ms = mute_at_ms - 200 if returning else mute_at_ms + LAG_MS
    mute_ms = _FENCED_MS + draws.between(1_000, 3_000)
    return [
        _fault(0, "isolate", _of(draws, "in-sync-follower", partition), back_at_ms, {"from": "brokers"}),
        _fault(mute_at_ms, "brokers-from-controllers", _of(draws, "leader", partition), mute_ms),
        _fault(mute_at_ms + _FENCED_MS + 300, "kill", _of(draws, "leader", partition), draws.between(1_500, 5_000)),
    ]


def _leaders_one_after_the_other(draws: Draws, partition: int) -> list[ScheduledFault]:
    """Each leader is lost soon after it was elected; the first returns while the last leads."""
    count = draws.between(2, 3)
    return [
        _fault(turn * _FENCED_MS, "kill", _of(draws, "leader", partition), _FENCED_MS + draws.between(500, 3_500))
        for turn in range(count)
    ]


def _follower_far_behind(draws: Draws, partition: int) -> list[ScheduledFault]:
    """A follower is kept from fetching until it is out of sync; then the others are lost one by one."""
    count = draws.between(1, 2)
    apart_ms = draws.choice((300, 3_500))
    lasts_ms = LAG_MS + count * apart_ms + draws.between(500, 2_500)
    return [
        _fault(0, "isolate", _of(draws, "in-sync-follower", partition), lasts_ms, {"from": "brokers"}),
        *(
            _fault(
                LAG_MS + turn * apart_ms,
                draws.choice(("kill", "page-cache-loss")),
                _of(draws, "leader", partition),
                draws.between(2_500, 6_000),
            )
            for turn in range(count)
        ),
    ]


RECIPES: Final[Mapping[str, Recipe]] = {
    "min-isr-raised-then-shrunk": Recipe(("raised-min-isr", "isolate", "kill"), _min_isr_raised_then_shrunk),
    "restarted-then-lost": Recipe(("restart", "page-cache-loss"), _restarted_then_lost),
    "isr-change-overtaken": Recipe(("isolate", "brokers-from-controllers", "kill"), _isr_change_overtaken),
    "leaders-one-after-the-other": Recipe(("kill",), _leaders_one_after_the_other),
    "follower-far-behind": Recipe(("isolate", "kill", "page-cache-loss"), _follower_far_behind),
}
"""The recipes that real clusters can suffer, by name."""


def parts(name: str) -> tuple[str, ...]:
    """The kinds that a name of `--faults` consists of: those of a recipe or of "a+b"; for a kind, itself."""
    recipe = RECIPES.get(name)
    return recipe.parts if recipe is not None else tuple(name.split("+"))


def kinds_in(names: Iterable[str]) -> list[FaultKind]:
    """The kinds that names of `--faults` consist of."""
    return [KINDS[part] for name in names for part in parts(name)]


def needs_of(name: str) -> frozenset[Capability]:
    """The capabilities that all kinds of a name of `--faults` need."""
    return frozenset().union(*(kind.needs for kind in kinds_in((name,))))
