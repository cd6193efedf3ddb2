"""Writes `docs/reference/history.md`: which flaw each protocol version has, from the first ZooKeeper design to KRaft.

Run with `python -m simulation.known_flaws.history > docs/reference/history.md`, and with `--html` for the page to click
through, `docs/reference/history.html`. It simulates every seed in the table, plays every schedule, and fails if one of
them does not show its flaw any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import click

from broker.core.rules.flaws import FLAWS
from broker.core.rules.generations import GENERATIONS
from broker.zookeeper.choices import C1, C2, C3, V1, V2, ZOOKEEPER_GENERATIONS
from simulation.directed.files import schedules
from simulation.directed.runner import play_schedule
from simulation.runs.sweep import simulate
from simulation.scenario.overrides import repeat_command
from simulation.zookeeper import evidence, observer

DIVERGENT: Final = "divergent-replicas"
_SAFE: Mapping[str, object] = MappingProxyType({"lossy_budget": 0, "acks": -1})
_STORIES: Final = "../../tests/simulation/zookeeper"


class Seed(NamedTuple):
    """A random seed whose first finding names the flaw; `sign` is a text in it, or the name of the finding."""

    number: int
    sign: str
    overrides: Mapping[str, object] = MappingProxyType({})


class Story(NamedTuple):
    """A test that stages the flaw step by step."""

    file: str
    name: str


class Played(NamedTuple):
    """The directed schedule of a flaw of KRaft, whose rule this version does not have yet; `sign` as of a seed."""

    flaw: str
    sign: str


Cell = Seed | Story | Played | None
"""What shows that a version has a flaw; None if it has not."""


class FlawHistory(NamedTuple):
    """One flaw of the catalogue. `cure` is the rule that came of it, `flaw` what removes that rule from KRaft.

    `after` are the flaws whose cure it came with: what those rules left open.
    """

    number: str
    what: str
    cells: Mapping[str, Cell]
    cure: str
    flaw: str = ""
    after: tuple[str, ...] = ()


def _both(file: str, name: str) -> dict[str, Cell]:
    return {V1: Story(file, name), V2: Story(file, name)}


def _steps(name: str, *generations: str) -> dict[str, Cell]:
    return {generation: Story("test_controller_stories.py", name) for generation in generations}


def _played(flaw: str, sign: str, *generations: str) -> dict[str, Cell]:
    return dict.fromkeys(generations, Played(flaw, sign))


HISTORY: Sequence[FlawHistory] = (
    FlawHistory(
        "B-01",
        "two leaders: one that only ZooKeeper has lost overwrites the ISR of the next",
        {
            V1: Seed(60, observer.TWO_LEADERS),
            V2: Story(
                "test_v2_stories.py",
                "test_a_leader_that_leads_on_after_the_end_of_its_session_overwrites_isr_and_epoch",
            ),
        },
        "the ISR is written over a known version (0.8), later through the controller",
        "leader-epoch-unchecked",
    ),
    FlawHistory(
        "B-03",
        "a new leader takes its log end for committed",
        _both("test_stories.py", "test_a_new_leader_takes_its_log_end_for_committed"),
        "it keeps its high watermark (0.8)",
        "high-watermark-from-log-end",
    ),
    FlawHistory(
        "B-04",
        "a follower's position is believed, though its log is longer than the leader's, or another",
        {V1: Seed(97, observer.NEVER_HELD), V2: Seed(197, observer.NEVER_HELD)},
        "a fetch behind the log end is refused (0.8), and one of a diverging log (2.7)",
        "believe-fetch-offset",
    ),
    FlawHistory(
        "B-05",
        "a delayed request to close deletes a replica that is in sync again",
        {
            V2: Seed(1630066, observer.DELETED),
            **dict.fromkeys(
                (C1, C2, C3),
                Story(
                    "test_controller_topics.py",
                    "test_a_late_request_deletes_the_replica_of_the_next_topic_of_the_name",
                ),
            ),
        },
        "requests have the controller's epoch (0.8), and the leader's where they delete a log (KIP-570, 2.6)",
    ),
    FlawHistory(
        "B-08",
        "leadership is handed over before what is committed is acknowledged",
        _both("test_stories.py", "test_a_leader_hands_over_before_it_answers"),
        "the controller moves leaderships, and clients are answered first (0.8)",
    ),
    FlawHistory(
        "B-10",
        "an idle partition's ISR is never repaired",
        _both("test_stories.py", "test_an_idle_partition_elects_a_member_of_its_isr_that_lost_its_disk"),
        "the ISR is looked at in intervals (0.8)",
        "idle-isr-not-repaired",
    ),
    FlawHistory(
        "B-11",
        "a follower cuts to its high watermark, which lags, and is elected",
        {
            V1: Seed(62, observer.CUT_TO_HIGH_WATERMARK),
            V2: Seed(1630064, observer.CUT_TO_HIGH_WATERMARK),
            C1: Seed(1710014, evidence.TO_HIGH_WATERMARK, _SAFE),
        },
        "it cuts to where the epoch of its last record ends at the leader (KIP-101, 0.11)",
        "truncate-to-high-watermark",
    ),
    FlawHistory(
        "B-12",
        "after hard failures two logs differ for ever",
        {
            V1: Seed(2, observer.NOT_SYNCED),
            V2: Seed(1630007, observer.NOT_SYNCED),
            **_steps("test_two_hard_failures_after_which_the_shorter_log_leads", C1),
        },
        "it cuts to where the epoch of its last record ends at the leader (KIP-101, 0.11)",
        "logs-not-compared",
    ),
    FlawHistory(
        "B-13",
        "the leader never heard of the follower's last epoch, and answers with an offset of another",
        _steps("test_a_follower_of_an_epoch_that_its_leader_never_heard_of", C2),
        "the answer says of which epoch it is (KIP-279, 2.0)",
        "epochless-divergence-answer",
        ("B-11", "B-12"),
    ),
    FlawHistory(
        "B-15",
        "a follower of an earlier epoch counts, and is compared with an earlier leader",
        _steps("test_a_follower_compares_its_log_with_that_of_an_earlier_leader", C2, C3),
        "requests have the epoch that they are for (KIP-320, 2.1)",
        "leader-epoch-unchecked",
    ),
    FlawHistory(
        "B-17",
        "a leader that has appended nothing does not know its epoch, and its followers cut to their high watermarks",
        _steps("test_a_leader_that_has_appended_nothing_does_not_know_its_epoch", C2, C3),
        "the epoch is noted on becoming leader (KAFKA-7415, 2.1)",
        "epoch-cached-at-first-append",
        ("B-11", "B-12"),
    ),
    FlawHistory(
        "B-18",
        "a follower that missed an epoch keeps what its leader has cut",
        {
            C2: Seed(1700188, evidence.NOT_COMPARED),
            C3: Seed(1700188, evidence.NOT_COMPARED),
        },
        "logs are compared in every new epoch (KAFKA-7164, 2.1)",
        "compare-only-with-new-leader",
        ("B-11", "B-12"),
    ),
    FlawHistory(
        "B-19",
        "a replica joins the ISR below where its leader's epoch began",
        _steps("test_a_replica_joins_the_isr_below_the_start_of_its_leaders_epoch", C1, C2, C3),
        "it must have reached that offset (KAFKA-7128, 2.1)",
        "join-below-epoch-start",
    ),
    FlawHistory(
        "B-21",
        "the request to stop of a broker's earlier process is obeyed, and the broker is not elected",
        _steps("test_a_request_to_stop_of_an_earlier_process_is_obeyed", C1, C2, C3),
        "requests have the broker's epoch (KIP-380, 2.2)",
        "stale-broker-epoch-obeyed",
        ("B-05", "B-08"),
    ),
    FlawHistory(
        "KAFKA-1120",
        "a broker that was away between two looks of the controller is told nothing, and leads nothing",
        _steps("test_a_broker_that_was_away_between_two_looks_of_the_controller_is_told_nothing", C1, C2, C3),
        "brokers have epochs, which the controller compares (KIP-380, 2.2)",
        after=("B-05", "B-08"),
    ),
    FlawHistory(
        "B-50",
        "a broker that has restarted without its last records is taken back for what it had before",
        _played("rebooted-joins-isr", "P-2", "K2"),
        "the leader names the process of each member, by its broker epoch (KIP-903, 3.5)",
        "rebooted-joins-isr",
    ),
    FlawHistory(
        "B-52",
        "the last member of an ISR loses what it had not synced",
        {
            **{generation: Seed(1700002, evidence.UNSYNCED) for generation in (C1, C2, C3)},
            **_played("keep-last-in-sync", "P-2", "K1", "K2", "K3"),
        },
        "those that left an ISR below its minimum stay eligible (KIP-966)",
        "keep-last-in-sync",
    ),
    FlawHistory(
        "B-55",
        "a reassignment ends once the added replicas are in sync, with fewer members than the min ISR",
        _played("reassignment-ends-early", "P-23", "K1", "K2", "K3", "K4"),
        "it ends when the new replicas that are in sync are enough (KAFKA-15665)",
        "reassignment-ends-early",
    ),
)
"""In the order of the catalogue."""


def shows(generation: str, cell: Seed | Played) -> bool:
    """Whether the first finding of the seed, or of the schedule, still is the flaw in this version."""
    match cell:
        case Seed(number, sign, overrides):
            found = simulate(number, {"generation": generation, **overrides}, observed=True).findings[:1]
        case Played(flaw, sign):
            found = play_schedule(schedules()[flaw][0], flawed=False, generation=generation).findings[:1]
    return any(sign in one.what or one.property_id == sign for one in found)


def page() -> str:
    """The page, without looking whether the seeds still show what they should."""
    versions = (*ZOOKEEPER_GENERATIONS, *GENERATIONS)
    head = ("flaw", "what happens", *(f"`{one}`" for one in versions), "cure", "KRaft without it")
    lines = [
        "# History of the protocol",
        "",
        "Each row is a flaw of the catalogue, each column a protocol version, on [ZooKeeper](zookeeper.md) and then",
        "with KRaft, in order. A number is a random seed whose first finding is that flaw, *story* a test that stages",
        "it, and *schedule* the directed one of the last column, which fails with that version as it is. The commands",
        "of the seeds are below. A version without any of them has not been seen to have the flaw. *Cure* is the rule",
        "that came of it, with Kafka's release. The versions of the last column keep it, but for the [flaw](flaws.md)",
        "there, whose directed schedule shows the same.",
        "",
        "The same [as a page to click through](history.html), with what each rule left open: save it and open it in a",
        "browser. Made by `python -m simulation.known_flaws.history`, which runs every seed and schedule.",
        "",
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
        *(_row(one) for one in HISTORY),
        "",
        "## Seeds",
        "",
        *(f"    {line}" for line in _commands()),
    ]
    return "\n".join(lines) + "\n"


def _row(one: FlawHistory) -> str:
    cells = [_cell(one.cells.get(generation)) for generation in (*ZOOKEEPER_GENERATIONS, *GENERATIONS)]
    return f"| {' | '.join((one.number, one.what, *cells, one.cure, _of_kraft(one.flaw)))} |"


def _cell(cell: Cell) -> str:
    match cell:
        case Seed(number):
            return str(number)
        case Story(file, _):
            return f"[story]({_STORIES}/{file})"
        case Played():
            return "schedule"
        case None:
            return ""


def _of_kraft(name: str) -> str:
    if not name:
        return ""
    flaw, played = FLAWS[name], schedules().get(name, ())
    link = f"[`{flaw.name}`](../../{played[0].relative_to(played[0].parents[4])})" if played else f"`{flaw.name}`"
    return f"{link}, {flaw.generations[0]} to {flaw.generations[-1]}"


def _commands() -> list[str]:
    commands = []
    for one in HISTORY:
        for generation, cell in one.cells.items():
            if isinstance(cell, Seed):
                commands.append(f"{command_of(generation, cell)}    # {one.number}")
    return commands


def command_of(generation: str, seed: Seed) -> str:
    """The command that runs a seed again."""
    return repeat_command(["sim", "--seed", str(seed.number)], {"generation": generation, **seed.overrides})


def check_cells() -> None:
    """Simulate every seed of the table, and play every schedule. Raises `click.ClickException` if one shows no flaw."""
    for one in HISTORY:
        for generation, cell in one.cells.items():
            if not (cell is None or isinstance(cell, Story) or shows(generation, cell)):
                raise click.ClickException(f"expected {cell} of {generation} to show {one.number}")


@click.command()
def main() -> None:
    """Check every cell of the table, and print the page."""
    check_cells()
    click.echo(page(), nl=False)


if __name__ == "__main__":
    main()
