"""Recipes: several faults that belong together, on the same partition and the same nodes, one soon after the other.

A fault alone seldom does harm; a sequence such as "hold a leader's request back, replace the leader, let it pass" does,
and independent faults hardly ever meet like that. `simulation/faults/recipe.py` has what each is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from simulation.faults.recipe import CONTROL, METADATA, QUORUM, RECOVERY, REPLICATION, Recipe, Steps


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
    late = recipe.pick(*replicas)
    yield lambda: recipe.is_up(late)
    recipe.hold(late, recipe.controller(), RECOVERY, recipe.pick(3_000, 1_000))
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


def added_twice(recipe: Recipe) -> Steps:
    """A replica is added, given up, and added again, and hears of each only when the leader knows them all."""
    before = recipe.state().replicas
    spare = [one for one in recipe.brokers if one not in before]
    added = recipe.pick(*spare) if spare else before[-1]
    if not spare:
        before = before[:-1]
        recipe.assign(before)
        yield lambda: recipe.state().replicas == before
    changes, pause_ms = 2 * recipe.pick(1, 2) + 1, recipe.pick(100, 30, 300)
    recipe.hold(recipe.controller(), added, METADATA, changes * pause_ms)
    for change in range(changes):
        recipe.operator.assign(recipe.partition, None if change % 2 else (*before, added))
        yield pause_ms
    late_ms = recipe.pick(400, 100, 1_000)
    for _ in range(changes):
        yield recipe.pick(3, 1, 8)  # one answer arrives: one change, where they are sent one at a time
        recipe.hold(recipe.controller(), added, METADATA, late_ms)
        yield late_ms
    if recipe.pick(True, False):
        recipe.replace_leader(recipe.leader())


def leader_misses_elections(recipe: Recipe) -> Steps:
    """A leader hears of two elections at once: it leads again, and another has led meanwhile, whose log was shorter."""
    leader, follower, before = recipe.leader(), recipe.follower(), recipe.state().replicas
    others = [one for one in before if one not in (leader, follower)]
    recipe.hold(follower, leader, REPLICATION, recipe.pick(2_000, 1_200, 4_000))
    recipe.inject("late-metadata", leader, 4 * recipe.pick(1_500, 900, 3_000))
    yield recipe.pick(50, 150, 600, 10)
    for chosen in (follower, leader):
        recipe.operator.assign(recipe.partition, (chosen, *(one for one in before if one != chosen)))
        recipe.operator.elect(0, (recipe.partition,))
        yield lambda chosen=chosen: recipe.state().leader == chosen  # type: ignore[misc]
        yield recipe.pick(100, 20, 400)
    for other in others:
        recipe.hold(other, leader, REPLICATION, recipe.pick(3_000, 1_500))
    yield recipe.pick(3_000, 1_500, 600)
    if recipe.pick(True, False):
        recipe.inject("kill", leader, recipe.pick(4_500, 1_500))
        recipe.inject(recipe.pick("kill", "isolate"), follower, recipe.pick(4_500, 1_500))


def recovered_twice(recipe: Recipe) -> Steps:
    """A recovery is kept waiting, or asks twice since a replica died and another was fenced; who is elected dies."""
    replicas = list(recipe.state().replicas)
    late = replicas.pop(recipe.pick(*range(len(replicas))))
    away_ms = recipe.pick(3_500, 4_500)
    recipe.take_down(late, away_ms + 700)
    yield recipe.pick(700, 0, 1_500)  # it is fenced before the others, so that its log is not needed
    for node in replicas:
        recipe.take_down(node, away_ms + 1_600)
    yield lambda: recipe.is_up(late)
    controller = recipe.controller()
    recipe.hold(late, controller, RECOVERY, recipe.pick(4_000, 9_000, 3_400))
    if recipe.pick(True, False):
        yield recipe.pick(600, 300)  # until it is registered
        recipe.hold(late, controller, CONTROL, recipe.pick(4_000, 6_000))
    if len(replicas) > 1 and recipe.pick(True, False):
        yield lambda: recipe.is_up(replicas[0])
        recipe.hold(replicas[0], controller, RECOVERY, recipe.pick(2_600, 2_200, 3_200))
        yield recipe.recovers
        yield recipe.pick(50, 200)
        recipe.inject("kill", replicas[1], recipe.pick(50, 300))
    yield lambda: recipe.state().leader >= 0
    for _ in range(recipe.pick(1, 2)):
        recipe.inject(recipe.pick("kill", "page-cache-loss"), recipe.leader(), recipe.pick(5_000, 2_000, 300), 2)
        yield recipe.pick(200, 1_500, 4_000)


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
    "added-twice": added_twice,
    "leader-misses-elections": leader_misses_elections,
    "recovered-twice": recovered_twice,
}
"""Kind of fault -> the recipe."""
