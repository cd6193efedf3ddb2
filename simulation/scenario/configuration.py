"""Draws what a seed means: the cluster, the clients, the kinds of fault that it may have, and which faults strike when.

`COMMON_FAULTS`, `RARER_FAULTS` and `CLOSE_FAULTS` are the table of which seeds have which kinds: each seed draws a
subset (swarm testing). The configuration is drawn from the stream "configuration", in a fixed order, so that a flag may
override one part and leave the others; the faults are drawn from the stream "schedule".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, NamedTuple

from common.names import unknown
from nemesis.kinds import LISTED_KINDS
from nemesis.targets import Trigger
from simulation.engine.choices import Stream

COMMON_FAULTS = (
    "kill",
    "page-cache-loss",
    "pause",
    "isolate",
    "halves",
    "one-way",
    "brokers-from-controllers",
    "connection-resets",
    "restart",
    "slow-disk",
    "clock-jump",
    "disk-loss",
    "reassignment",
    "same-min-isr",
    "moved-leader",
    "stalled-link",
    "late-metadata",
)
"""Kinds of fault, each of which half of the seeds have."""

RARER_FAULTS = (
    "power-cut",
    "bit-flip",
    "disk-error",
    "changed-min-isr",
    "preferred-election",
    "unclean-election",
    "shrunk-replicas",
    "cancelled-reassignment",
    "added-partition",
    "deleted-records",
    "lossy-restart",
    "torn-append",
)
"""Kinds of fault, each of which a quarter of the seeds have."""

RECIPES = tuple(name for name, kind in LISTED_KINDS.items() if kind.family == "recipe")
"""Faults that belong together (`simulation.faults.recipes`)."""

LATER_RECIPES = ("added-twice", "leader-misses-elections", "recovered-twice")
"""Recipes, each of which a third of the seeds have, drawn from a stream of their own (`draw_recipes`)."""

CLOSE_FAULTS = (
    "late-connection",
    *(name for name in RECIPES if name not in LATER_RECIPES),
    "interrupted-change",
)
"""Kinds of fault, each of which a third of the seeds have."""

DIRECTORY_FAULTS = ("directory-error",)
"""Kinds of fault that every seed has in which brokers have several log directories."""

FAULTS = (
    *COMMON_FAULTS,
    *RARER_FAULTS,
    "torn-page-cache-loss",
    *CLOSE_FAULTS,
    *LATER_RECIPES,
    *DIRECTORY_FAULTS,
)
"""Kinds of fault that a schedule may contain. `torn-page-cache-loss` is never drawn, only named."""

EXAMINATIONS = ("describing", "reading", "writing", "grouping", "administering")
"""Kinds of questions that a client may ask at the end (`simulation.examination`)."""

RECIPE_PARAMETERS = 1_000_000_000
_PARAMETERS = 1_000


@dataclass(frozen=True)
class Configuration:
    """Settings of one simulated test. Times in milliseconds of virtual time; chances per thousand.

    `compacted`: the topic is compacted, in small segments, and only the observers judge, since later records replace
    earlier ones of the same key. `sole_survivor` turns on the sole-survivor phase: each broker in turn is the only one
    alive.
    """

    generation: str = "K5"
    flaws: tuple[str, ...] = ()
    brokers: int = 3
    controllers: int = 3
    combined: bool = False
    partitions: int = 2
    replication_factor: int = 3
    min_insync_replicas: int = 2
    acks: int = -1
    idempotence: bool = True
    retries: bool = True
    producers: int = 2
    readers: int = 1
    operations: int = 200
    polls: int = 200
    flush_messages: int = 0
    flush_ms: int = 0
    unclean_election: bool = False
    unclean_recovery: str = "Balanced"
    session_timeout_ms: int = 3_000
    heartbeat_ms: int = 1_000
    lag_ms: int = 4_000
    fetch_wait_ms: int = 1_000
    metadata_snapshot_records: int = 5_000
    metadata_fetch_bytes: int = 8 << 20
    duration_ms: int = 60_000
    faults: tuple[str, ...] = (*COMMON_FAULTS, *RARER_FAULTS, *CLOSE_FAULTS)
    fault_interval_ms: int = 6_000
    fault_duration_ms: int = 5_000
    lossy_budget: int = 1
    controlled_shutdown_ms: int = 30_000
    slow_of_1000: int = 0
    answer_lost_of_1000: int = 0
    repeated_of_1000: int = 0
    sole_survivor: bool = True
    compacted: bool = False
    min_isr_of_brokers: int = 0
    """What the files of brokers say that are no controllers, where it differs: it must not matter. 0: the same."""

    group_members: int = 0
    """Members of a consumer group that reads beside the readers."""

    static_members: bool = False
    """Whether the first of them has an instance id (KIP-345)."""

    side_topics: bool = False
    """Whether an operator creates and deletes topics beside the main one."""

    keyed_topic: bool = False
    """Whether a client writes to a compacted topic beside the main one."""

    racks: int = 0
    """In how many racks the brokers are, by their ids; with some a consumer that names its own reads from followers."""

    changing_settings: bool = False
    """Whether an operator alters settings of the topic and of all brokers while faults go on."""

    compression: str = "none"
    """Codec of the producers' batches, `none` or `snappy`. Where it is one, readers look up records by time."""

    segment_bytes: int = 0
    """`segment.bytes` of the topic; 0: so many that no segment is ever full."""

    index_interval_bytes: int = 4_096
    """`index.interval.bytes` of the topic, where `segment_bytes` says when segments are rolled."""

    in_flight: int = 1
    """How many batches an idempotent producer may have in flight, up to 5; only of the model."""

    retention_ms: int = 0
    """`retention.ms` of the topic; 0: unlimited."""

    retention_bytes: int = 0
    """`retention.bytes` of the topic; 0: unlimited."""

    log_append_time: bool = False
    """Whether the topic's records get the time of the leader, not of their producers."""

    clock_error_ms: int = 0
    """How wrong some clocks are (`simulation.scenario.clocks`)."""

    producer_expiration_ms: int = 0
    """After how long brokers forget an idle producer; 0: never in a simulation."""

    client: str = "model"
    """What sends and reads: the simulation's own `model` of clients, or a library (`simulation.workload.making`)."""

    log_directories: int = 1
    """How many log directories each broker has."""

    fetch_bytes: int = 0
    """How many bytes followers and readers ask for at once; 0: more than there are."""

    examination: str = ""
    """Which questions a client asks at the end, when all is healed and read; "": none."""

    search: str = "usual"
    """Which simulations the seeds are spent on (`simulation.scenario.search`)."""

    @property
    def is_dated(self) -> bool:
        """Whether records have times of the day."""
        return bool(self.retention_ms or self.retention_bytes or self.log_append_time or self.clock_error_ms)

    def to_json(self) -> dict[str, object]:
        """Plain data, for records and files."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Configuration:
        """The inverse of `to_json`; raises ValueError for a key that does not exist."""
        known = {one.name for one in fields(cls)}
        for key in data:
            if key not in known:
                raise ValueError(unknown(key, sorted(known), "a setting of the simulation"))
        plain = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}
        return cls(**plain)  # type: ignore[arg-type]


_FETCH_WAIT_MS = 2_000
"""Longer than the broker's default: repeated fetches are most of what an idle cluster does, and find nothing new."""


def draw_configuration(stream: Stream) -> Configuration:
    """Draw the configuration of a seed, as it is without a search of its own and without overrides."""
    drawn = Configuration(
        brokers=3 + (stream.draw("brokers", 3) == 2),
        controllers=(3, 3, 1)[stream.draw("controllers", 3)],
        partitions=2 - (stream.draw("partitions", 3) == 2),
        flush_messages=(0, 0, 0, 1, 5)[stream.draw("flush every n", 5)],
        flush_ms=(0, 0, 500)[stream.draw("flush every ms", 3)],
        idempotence=stream.draw("no idempotence", 4) < 3,
        retries=stream.draw("no retries", 5) < 4,
        producers=1 + stream.draw("producers", 3),
        readers=1 + stream.draw("readers", 2),
        lag_ms=(4_000, 1_500, 8_000)[stream.draw("lag", 3)],
        metadata_snapshot_records=(5_000, 30)[stream.draw("snapshots", 2)],
        metadata_fetch_bytes=(8 << 20, 1)[stream.draw("metadata one change at a time", 6) == 5],
        faults=tuple(kind for kind in COMMON_FAULTS if stream.draw(f"with {kind}", 2)),
        fault_interval_ms=(6_000, 3_000, 1_500)[stream.draw("fault interval", 3)],
        fault_duration_ms=(5_000, 2_000, 12_000)[stream.draw("fault duration", 3)],
        slow_of_1000=(0, 0, 20)[stream.draw("slow network", 3)],
        answer_lost_of_1000=(0, 0, 10, 50)[stream.draw("lost answers", 4)],
        repeated_of_1000=(0, 0, 0, 10)[stream.draw("repeated requests", 4)],
        combined=stream.draw("combined roles", 6) == 5,
    )
    rarer = tuple(kind for kind in RARER_FAULTS if stream.draw(f"with {kind}", 4) == 3)
    drawn = replace(
        drawn,
        faults=(*drawn.faults, *rarer),
        brokers=drawn.brokers + (stream.draw("one more broker", 6) == 5),
        acks=-1 if stream.draw("not all acks", 12) < 11 else stream.draw("acks", 2),
        unclean_election=stream.draw("unclean elections", 16) == 15,
        unclean_recovery="Aggressive" if stream.draw("aggressive recovery", 16) == 15 else "Balanced",
        lossy_budget=int(stream.draw("no losses", 5) < 4),
        controlled_shutdown_ms=(30_000, 1_000)[stream.draw("short controlled shutdown", 3) == 2],
    )
    drawn = replace(
        drawn,
        min_isr_of_brokers=int(stream.draw("another min ISR in brokers' files", 8) == 7),
        compression="snappy" if stream.draw("compressed batches", 8) == 7 else "none",
    )
    close = tuple(kind for kind in CLOSE_FAULTS if stream.draw(f"with {kind}", 3) == 2)
    drawn = replace(drawn, faults=(*drawn.faults, *close))
    if stream.draw("rolled segments", 3) == 2:
        drawn = replace(
            drawn,
            segment_bytes=stream.pick("segment bytes", (3_000, 1_000, 300)),
            index_interval_bytes=stream.pick("index interval", (4_096, 200, 0)),
        )
    drawn = replace(
        drawn,
        group_members=(0, 0, 2, 0, 0, 3)[stream.draw("members of a group", 6)],
        static_members=stream.draw("static members", 4) == 3,
        side_topics=stream.draw("side topics", 4) == 3,
    )
    drawn = replace(drawn, changing_settings=stream.draw("changing settings", 4) == 3)
    if stream.draw("several batches in flight", 4) == 3:
        drawn = replace(drawn, in_flight=stream.pick("batches in flight", (2, 5)))
    if stream.draw("retention", 5) == 4:
        drawn = replace(
            drawn,
            segment_bytes=drawn.segment_bytes or stream.pick("bytes of segments that are retained", (1_000, 300)),
            retention_ms=stream.pick("retention time", (20_000, 8_000, 0)),
            retention_bytes=stream.pick("retained bytes", (0, 4_000, 1_500)),
            log_append_time=stream.draw("leaders' times", 3) == 2,
            clock_error_ms=stream.pick("wrong clocks", (0, 2_000, 30_000)),
        )
    return replace(drawn, fetch_wait_ms=min(_FETCH_WAIT_MS, drawn.lag_ms // 2))


def draw_later(stream: Stream, drawn: Configuration) -> Configuration:
    """Draw what was added after the searches: behind their draws, so that earlier seeds keep theirs."""
    if stream.draw("producers expire", 6) == 5:
        return replace(drawn, producer_expiration_ms=stream.pick("lifetime of producers", (30_000, 5_000, 1_000)))
    return drawn


def draw_directories(stream: Stream) -> int:
    """How many log directories each broker has: two in a fifth of the seeds.

    It has a stream of its own, so that the other seeds are what they were before there was such a choice.
    """
    return 1 + (stream.draw("two log directories", 5) == 4)


def draw_fetch_bytes(stream: Stream) -> int:
    """How many bytes a fetch asks for: few in a fifth of the seeds; for that there is a stream of its own, too."""
    if stream.draw("fetches of few bytes", 5) == 4:
        return stream.pick("bytes of a fetch", (2_000, 500, 100))
    return 0


def draw_examination(stream: Stream) -> str:
    """Which questions a client asks at the end: one kind, since all take too long; it has a stream of its own, too."""
    return EXAMINATIONS[stream.draw("kind", len(EXAMINATIONS))]


def draw_keyed_topic(stream: Stream) -> bool:
    """Whether there is a compacted topic, too: in a sixth of the seeds; for that there is a stream of its own, too."""
    return stream.draw("a compacted topic", 6) == 5


def draw_racks(stream: Stream) -> int:
    """In how many racks the brokers are: in two in a quarter of the seeds, else in none; a stream of its own, too."""
    return 2 if stream.draw("in racks", 4) == 3 else 0


def draw_recipes(stream: Stream, drawn: Configuration) -> Configuration:
    """Draw the later recipes. They have a stream of their own, so that seeds without them are what they were."""
    recipes = tuple(name for name in LATER_RECIPES if stream.draw(f"with {name}", 3) == 2)
    if "added-twice" in recipes and stream.draw("one change at a time", 2):
        drawn = replace(drawn, metadata_fetch_bytes=1)
    return replace(drawn, faults=(*drawn.faults, *recipes))


class SimulatedFault(NamedTuple):
    """One entry of a schedule. `target` is resolved when it fires: 0 … n are nodes in order, larger numbers roles."""

    at_ms: int
    kind: str
    target: int
    duration_ms: int
    parameter: int
    when: Trigger | None = None  # fires once this holds, at `at_ms` or later; never, if it does not hold before the end

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        plain = self._asdict()
        if self.when is None:
            del plain["when"]
        else:
            plain["when"] = asdict(self.when)
        return plain

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> SimulatedFault:
        """The inverse of `to_json`."""
        when = plain.get("when")
        return cls(**{**plain, "when": None if when is None else Trigger(**when)})


def draw_faults(stream: Stream, configuration: Configuration) -> list[SimulatedFault]:
    """Draw the faults of a seed, of the kinds and at the mean interval of its configuration."""
    faults: list[SimulatedFault] = []
    if not configuration.faults:
        return faults
    at_ms = 2_000
    while True:
        at_ms += 1 + stream.draw("pause before the fault", 2 * configuration.fault_interval_ms)
        if at_ms >= configuration.duration_ms - 5_000:
            return faults
        kind = stream.draw("kind", len(configuration.faults) + 1)
        if kind == 0:
            continue
        name = configuration.faults[kind - 1]
        faults.append(
            SimulatedFault(
                at_ms,
                name,
                stream.draw("target", configuration.brokers + configuration.controllers + 4),
                1 + stream.draw("duration", 2 * configuration.fault_duration_ms),
                stream.draw("parameter", RECIPE_PARAMETERS if name in RECIPES else _PARAMETERS),
            )
        )
