"""Recipes: several faults that belong together, on the same partition and the same nodes, one soon after the other.

A fault alone seldom does harm; a sequence such as "hold a leader's request back, replace the leader, let it pass" does,
and independent faults hardly ever meet like that. A recipe is a generator: it injects faults through the nemesis, and
yields for how long to wait, or for what. Who leads and who follows is decided when a step needs it, as the active
controller sees it; a recipe that finds nobody ends.

All choices of a recipe (delays, durations, whom) are digits of one number, the fault's parameter; zero is the simplest.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Protocol, TypeVar

from broker.core.metadata.records import PartitionState
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.engine.node_views import active_controller, partition_states
from simulation.workload.administration import Administration

Wait = int | Callable[[], bool]
"""Milliseconds, or a condition, which is given `_PATIENCE_MS`."""

Steps = Generator[Wait, None, None]

_PATIENCE_MS = 6_000
_CHECK_MS = 10

_T = TypeVar("_T")

CHANNELS = CONTROL, QUORUM, REPLICATION, RECOVERY = "control", "quorum", "replication", "recovery"
"""Connections between nodes: what is sent on one keeps its order, and each may be late by itself."""


class Injector(Protocol):
    """What a recipe needs of the nemesis."""

    def inject(self, kind: str, node: int, duration_ms: int, parameter: int = 0) -> None:
        """Inject a fault on a node, for a while."""

    def hold(self, source: int, target: int, channel: str, duration_ms: int) -> None:
        """Let the messages of one channel, from one node to another, wait for a while."""


class Recipe:
    """One recipe at work: whom it is about, and what it draws."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        brokers: list[int],
        controllers: list[int],
        injector: Injector,
        operator: Administration,
        parameter: int,
    ) -> None:
        self._cluster = cluster
        self._digits = parameter
        self.inject = injector.inject
        self.hold = injector.hold
        self.operator = operator
        self.partition: int = self.pick(*range(max(1, len(partition_states(cluster)))))
        self.brokers = brokers
        self.controllers = controllers

    def pick(self, *choices: _T) -> _T:
        """The next choice."""
        self._digits, index = divmod(self._digits, len(choices))
        return choices[index]

    def soon(self) -> int:
        """A short wait, in ms."""
        return self.pick(0, 2, 5, 10, 20, 50, 150, 600)

    def state(self) -> PartitionState:
        """The partition as the active controller sees it. Raises `Nobody`."""
        states: list[PartitionState] = partition_states(self._cluster)
        if not states:
            raise Nobody
        return states[min(self.partition, len(states) - 1)]

    def leader(self) -> int:
        """Who leads the partition. Raises `Nobody`."""
        leader = self.state().leader
        if leader < 0:
            raise Nobody
        return leader

    def follower(self) -> int:
        """A replica that does not lead, in sync if there is one. Raises `Nobody`."""
        state = self.state()
        in_sync = [one for one in state.isr if one != state.leader]
        others = in_sync or [one for one in state.replicas if one != state.leader]
        if not others:
            raise Nobody
        return self.pick(*others)

    def controller(self) -> int:
        """The active controller. Raises `Nobody`."""
        found = active_controller(self._cluster)
        if found is None:
            raise Nobody
        return found

    def is_up(self, node: int) -> bool:
        """Whether the node's process runs."""
        return self._cluster.machines[node].node is not None

    def assign(self, replicas: tuple[int, ...] | None) -> None:
        """Assign replicas, or cancel that; never fewer than min ISR, which might not survive a loss that is allowed."""
        if replicas is None or len(replicas) >= self.operator.min_isr():
            self.operator.assign(self.partition, replicas)

    def replace_leader(self, leader: int) -> None:
        """Have another member of the ISR lead: by election, or because the leader dies, or seems to."""
        how = self.pick("elect", "kill", "isolate", "restart", "pause")
        if how == "elect":
            self.operator.move_leader(self.partition, self.pick(0, 1))
        else:
            self.inject(how, leader, self.pick(4_500, 1_500, 9_000))


class Nobody(Exception):
    """No node has the role that a recipe needs."""


def min_isr_raised_then_shrunk(recipe: Recipe) -> Steps:
    """Min ISR is raised, and a moment later a follower is lost, then the leader."""
    leader, follower = recipe.leader(), recipe.follower()
    recipe.inject("changed-min-isr", leader, recipe.pick(9_000, 3_000))
    yield recipe.soon()
    recipe.inject(recipe.pick("isolate", "kill", "pause"), follower, recipe.pick(6_000, 3_000))
    yield recipe.pick(2_000, 100, 5_000)
    recipe.inject(recipe.pick("kill", "page-cache-loss", "isolate"), leader, recipe.pick(4_000, 1_000))


def restarted_then_lost(recipe: Recipe) -> Steps:
    """A node is stopped in good order, comes back, and loses its page cache before it is settled."""
    node = recipe.pick(recipe.leader, recipe.follower)()
    recipe.inject("restart", node, recipe.pick(1_500, 500))
    yield lambda: not recipe.is_up(node)
    yield lambda: recipe.is_up(node)
    yield recipe.pick(20, 100, 400, 1_000, 2_000)
    recipe.inject("page-cache-loss", node, recipe.pick(1_000, 3_000), recipe.pick(2, 0, 1))


def move_cancelled(recipe: Recipe) -> Steps:
    """A reassignment is cancelled, or replaced by another, while members of the ISR come and go."""
    before = recipe.state().replicas
    spare = [one for one in recipe.brokers if one not in before]
    target = (*before[1:], recipe.pick(*spare)) if spare else before[:-1]
    if recipe.pick(True, False):
        target = (*target[1:], target[0])
    recipe.assign(target)
    yield recipe.pick(50, 5, 300, 1_500)
    for _ in range(recipe.pick(1, 2, 3)):
        state = recipe.state()
        victim = recipe.pick(*(state.isr or state.replicas))
        recipe.inject(recipe.pick("kill", "page-cache-loss", "isolate", "restart"), victim, recipe.pick(3_000, 8_000))
        yield recipe.pick(300, 3_500, 50)
    recipe.assign(recipe.pick(None, before))
    yield recipe.soon()
    recipe.replace_leader(recipe.leader())


def votes_held(recipe: Recipe) -> Steps:
    """Messages of the quorum are held back over one or two elections."""
    active = recipe.controller()
    others = [one for one in recipe.controllers if one != active]
    if not others:
        return
    first = recipe.pick(*others)
    source, target = recipe.pick((first, active), (active, first), (first, others[-1]), (others[-1], first))
    recipe.hold(source, target, QUORUM, recipe.pick(2_500, 1_000, 6_000))
    for _ in range(recipe.pick(1, 2)):
        recipe.inject(
            recipe.pick("kill", "pause", "isolate", "page-cache-loss"), recipe.controller(), recipe.pick(900, 2_500)
        )
        yield recipe.pick(1_200, 400, 2_500)


def records_deleted_then_lost(recipe: Recipe) -> Steps:
    """Records are deleted, and a replica is lost before all have stored the new start of the log."""
    leader = recipe.leader()
    recipe.inject("deleted-records", leader, 1, recipe.partition)
    yield recipe.soon()
    victim = recipe.pick(leader, recipe.follower())
    recipe.inject(recipe.pick("kill", "page-cache-loss"), victim, recipe.pick(1_500, 4_500))
    yield recipe.pick(500, 3_500)
    recipe.replace_leader(recipe.leader())


def isr_change_overtaken(recipe: Recipe) -> Steps:
    """A leader's change of the ISR, or its answer, is late, and the partition or the follower changes meanwhile."""
    leader, follower, controller = recipe.leader(), recipe.follower(), recipe.controller()
    returning = recipe.pick(True, False)
    recipe.inject(recipe.pick("isolate", "kill", "pause"), follower, recipe.pick(5_500, 9_000))
    if returning:
        yield lambda: follower not in recipe.state().isr
        yield recipe.pick(1_000, 100, 3_000)
    link = recipe.pick((leader, controller), (controller, leader))
    recipe.hold(*link, CONTROL, recipe.pick(2_200, 700, 4_500))
    yield recipe.pick(300, 1_500, 4_000, 50)
    then = recipe.pick("leader", "follower", "both", "follower loses data")
    if then in ("leader", "both"):
        recipe.replace_leader(leader)
        yield recipe.soon()
    if then in ("follower", "both"):
        recipe.inject("kill", follower, recipe.pick(200, 1_000, 3_000))
    if then == "follower loses data":
        recipe.inject("page-cache-loss", follower, recipe.pick(200, 1_000, 3_000), recipe.pick(2, 0, 1))


def fetch_held_over_elections(recipe: Recipe) -> Steps:
    """A fetch, or its answer, is late by one or more leaders."""
    leader, follower = recipe.leader(), recipe.follower()
    link = recipe.pick((leader, follower), (follower, leader))
    recipe.hold(*link, REPLICATION, recipe.pick(1_500, 400, 4_000))
    yield recipe.soon()
    for _ in range(recipe.pick(1, 2, 3)):
        recipe.operator.move_leader(recipe.partition, recipe.pick(0, 1))
        yield recipe.pick(30, 100, 400, 10)
    if recipe.pick(False, True):
        recipe.inject(recipe.pick("kill", "page-cache-loss"), recipe.leader(), recipe.pick(4_500, 1_000))


def changes_learnt_late(recipe: Recipe) -> Steps:
    """A broker hears of several changes of the partition at once, and a fetch from before may arrive after them."""
    leader, follower, before = recipe.leader(), recipe.follower(), recipe.state().replicas
    spare = [one for one in recipe.brokers if one not in before]
    late = recipe.pick(leader, follower, *spare[:1])
    recipe.inject("late-metadata", late, 4 * recipe.pick(1_500, 800, 3_000))
    if recipe.pick(True, False):
        link = recipe.pick((follower, leader), (leader, follower))
        recipe.hold(*link, REPLICATION, recipe.pick(1_700, 900, 3_500))
    yield recipe.soon()
    for _ in range(recipe.pick(2, 1, 3)):
        change = recipe.pick("lead", "leave and return", "come and go", "lose")
        if change == "lead":
            recipe.operator.move_leader(recipe.partition, recipe.pick(0, 1))
        elif change == "lose":
            recipe.inject(recipe.pick("kill", "brokers-from-controllers"), follower, recipe.pick(1_500, 5_000))
        else:
            fewer = tuple(one for one in before if one != follower)
            recipe.assign(fewer if change == "leave and return" else (*before, *spare[:1]))
            yield recipe.pick(100, 20, 400)
            recipe.assign(before if change == "leave and return" else None)
        yield recipe.pick(100, 300, 20, 800)
    if recipe.pick(False, True):
        recipe.replace_leader(recipe.leader())


def fetch_of_an_earlier_life(recipe: Recipe) -> Steps:
    """A follower loses its log, and is back when a fetch arrives that it sent before."""
    leader, follower = recipe.leader(), recipe.follower()
    recipe.hold(follower, leader, REPLICATION, recipe.pick(2_500, 1_200, 5_000, 8_000))
    yield recipe.soon()
    recipe.inject(recipe.pick("page-cache-loss", "disk-loss"), follower, recipe.pick(200, 1_000, 3_000), 2)
    yield recipe.pick(3_000, 1_500, 6_000)
    for victim in (one for one in recipe.state().isr if one != follower):
        recipe.inject("kill", victim, recipe.pick(6_000, 2_500))
        yield recipe.pick(300, 3_500)


def leaders_one_after_the_other(recipe: Recipe) -> Steps:
    """Each leader dies soon after it was elected; the first returns while the last leads."""
    for _ in range(recipe.pick(2, 3)):
        leader = recipe.leader()
        recipe.inject(recipe.pick("kill", "isolate", "page-cache-loss"), leader, recipe.pick(4_500, 7_000, 2_000))
        yield lambda leader=leader: recipe.state().leader not in (leader, -1)  # type: ignore[misc]
        yield recipe.soon()


def log_info_held(recipe: Recipe) -> Steps:
    """All replicas die; while a recovery asks the first ones that return, answers are late, and they die again."""
    replicas = recipe.state().replicas
    for index, node in enumerate(replicas):
        kind = recipe.pick("kill", "page-cache-loss")
        recipe.inject(kind, node, recipe.pick(4_000, 1_500, 2_500) + 400 * index, recipe.pick(2, 0))
        yield recipe.pick(0, 100, 3_500)
    controller, late = recipe.controller(), recipe.pick(*replicas)
    recipe.hold(late, controller, RECOVERY, recipe.pick(3_000, 1_000))
    yield lambda: recipe.is_up(late)
    yield recipe.pick(200, 800, 2_000)
    recipe.inject(recipe.pick("kill", "page-cache-loss"), late, recipe.pick(500, 2_000), recipe.pick(2, 0))


def follower_far_behind(recipe: Recipe) -> Steps:
    """A follower is kept from fetching, and when it is out of sync the others die one by one."""
    follower = recipe.follower()
    recipe.hold(recipe.leader(), follower, REPLICATION, recipe.pick(9_000, 5_000))
    yield lambda: follower not in recipe.state().isr
    for _ in range(recipe.pick(1, 2)):
        yield recipe.soon()
        recipe.inject(recipe.pick("kill", "restart", "page-cache-loss"), recipe.leader(), recipe.pick(6_000, 2_500))
        yield recipe.pick(3_500, 300)


STEPS: Mapping[str, Callable[[Recipe], Steps]] = {
    "min-isr-raised-then-shrunk": min_isr_raised_then_shrunk,
    "restarted-then-lost": restarted_then_lost,
    "move-cancelled": move_cancelled,
    "votes-held": votes_held,
    "records-deleted-then-lost": records_deleted_then_lost,
    "isr-change-overtaken": isr_change_overtaken,
    "fetch-held-over-elections": fetch_held_over_elections,
    "changes-learnt-late": changes_learnt_late,
    "fetch-of-an-earlier-life": fetch_of_an_earlier_life,
    "leaders-one-after-the-other": leaders_one_after_the_other,
    "log-info-held": log_info_held,
    "follower-far-behind": follower_far_behind,
}
"""Kind of fault -> the recipe."""


def play(cluster: SimulatedCluster, steps: Steps, is_over: Callable[[], bool]) -> None:
    """Let a recipe go on until it ends, finds nobody, or the faults are over."""

    def go_on() -> None:
        if is_over():
            steps.close()
            return
        try:
            wait = next(steps)
        except (StopIteration, Nobody):
            return
        if isinstance(wait, int):
            cluster.after(wait * MS, go_on)
        else:
            check(wait, cluster.now_us + _PATIENCE_MS * MS)

    def check(condition: Callable[[], bool], until_us: int) -> None:
        try:
            holds = condition()
        except Nobody:
            holds = False
        if holds or is_over():
            go_on()
        elif cluster.now_us < until_us:
            cluster.after(_CHECK_MS * MS, check, condition, until_us)

    go_on()
