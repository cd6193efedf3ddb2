"""A simulated operator who alters settings of the topic and of all brokers during faults, and restores them at last.

What it asks for may get lost or be refused, and nothing is asked again, but for the way back from a raised min ISR.
What is in force is what the controllers have committed; nobody keeps a list of what this operator wanted.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple, Protocol

from broker.core.messages import (
    AnyResponse,
    ConfigOperation,
    ConfigResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ResourceType,
)
from broker.core.messages.errors import ErrorCode
from broker.core.ports.marks import sometimes
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.engine.node_views import leading
from simulation.scenario.configuration import Configuration
from simulation.workload.clients import TOPIC

ALTERED = sometimes("settings: altered at run time")
REFUSED = sometimes("settings: an alteration at run time is refused")
LOSSES_ACCEPTED = sometimes("settings: an operator asked for unclean elections at run time")

_STREAM = "settings"
_INTERVAL_MS = 600
_TIMEOUT_MS = 1_500
_RESTORE_MS = 1_000
_MIN_ISR = "min.insync.replicas"
_ALL_BROKERS = ""
_BALANCING = "balancing"
_BALANCED_EVERY = ("2", "6")
"""Seconds after which preferred leaders are looked for; without this it is the default, longer than a simulation."""


class _Choice(NamedTuple):
    """A setting, of the topic or of all brokers, with the values that it may get; None: none of its own."""

    topic: str
    key: str
    values: tuple[str | None, ...]
    loses: tuple[str, ...] = ()
    """Values by which unclean elections are allowed."""


LARGEST_SEGMENT_BYTES = 3_000
"""Of the sizes of segments that the operator chooses."""

_CHOICES = (
    _Choice(TOPIC, "segment.bytes", (None, "300", "1000", str(LARGEST_SEGMENT_BYTES))),
    _Choice(TOPIC, "max.message.bytes", (None, "90", "400")),
    _Choice(_ALL_BROKERS, "message.max.bytes", (None, "250")),
    _Choice(TOPIC, "flush.messages", (None, "1", "3")),
    _Choice(TOPIC, "index.interval.bytes", (None, "0", "100")),
    _Choice(TOPIC, "unclean.leader.election.enable", (None, "false", "true"), ("true",)),
    _Choice(_ALL_BROKERS, "unclean.leader.election.enable", (None, "false", "true"), ("true",)),
    _Choice(TOPIC, "segment.bytes", ("-1", "many")),  # refused
)
_OF_K5 = (_Choice(TOPIC, "unclean.recovery.strategy", (None, "balanced", "manual", "proactive"), ("proactive",)),)
_COMPACTED = (_Choice(TOPIC, "cleanup.policy", ("compact", "compact,delete", "delete")),)


class Losses(Protocol):
    """What a change of min ISR waits for (ST-8)."""

    def allow_change_of_min_isr(self) -> bool:
        """Whether no broker lacks data."""
        ...

    def min_isr_changes(self) -> None:
        """Min ISR changes now."""
        ...

    def min_isr_is_back(self) -> None:
        """It was changed back."""
        ...


class SettingsOperator:
    """See the module. `initial`: the settings with which the topic was created."""

    def __init__(
        self, client_id: int, configuration: Configuration, initial: Mapping[str, str], losses: Losses
    ) -> None:
        self.client_id = client_id
        self.stopped = False
        self._brokers = range(1, configuration.brokers + 1)
        self._initial = dict(initial)
        self._losses = losses
        self._min_isr = configuration.min_insync_replicas
        self._highest_min_isr = configuration.replication_factor
        self._choices = (
            *_CHOICES,
            *(_OF_K5 if configuration.generation == "K5" else ()),
            *(_COMPACTED if configuration.compacted else ()),
        )
        self._touched: dict[tuple[str, str], None] = {}
        self._raised = False
        self._request = 0

    def start(self, cluster: SimulatedCluster) -> None:
        """Begin with the first step."""
        cluster.after(_INTERVAL_MS * MS, self.timer, cluster, "next")
        choices = cluster.choices[_BALANCING]
        if choices.draw("whether leaders are balanced", 3) == 2:
            every = _BALANCED_EVERY[choices.draw("how often leaders are balanced", len(_BALANCED_EVERY))]
            after_ms = 1_000 + choices.draw("when leaders begin to be balanced", 8_000)
            cluster.after(after_ms * MS, self._balance, cluster, every)

    def timer(self, cluster: SimulatedCluster, key: Hashable) -> None:
        """Alter one setting."""
        if self.stopped:
            return
        number = cluster.choices[_STREAM].draw("what to alter", len(self._choices) + 1)
        if number == len(self._choices):
            self._alter_min_isr(cluster)
        else:
            chosen = self._choices[number]
            value = chosen.values[cluster.choices[_STREAM].draw("to which value", len(chosen.values))]
            if value in chosen.loses:
                cluster.count(LOSSES_ACCEPTED)
            self._alter(cluster, chosen.topic, chosen.key, value)
        pause_ms = _INTERVAL_MS + cluster.choices[_STREAM].draw("pause", 2 * _INTERVAL_MS)
        cluster.after(pause_ms * MS, self.timer, cluster, "next")

    def answered(self, cluster: SimulatedCluster, request_id: int, response: AnyResponse | None) -> None:
        """Count what was done and what was refused."""
        if isinstance(response, IncrementalAlterConfigsResponse):
            for result in response.results:
                cluster.count(ALTERED if result.error_code == ErrorCode.NONE else REFUSED)

    def _alter_min_isr(self, cluster: SimulatedCluster) -> None:
        """ELR-6, for all brokers: raise min ISR where no data are missing, and lower it again."""
        if self._raised:
            if self._in_force(cluster, _ALL_BROKERS, _MIN_ISR) == str(self._min_isr):
                self._raised = False
                self._losses.min_isr_is_back()
            else:
                self._alter(cluster, _ALL_BROKERS, _MIN_ISR, str(self._min_isr))
        elif self._min_isr < self._highest_min_isr and self._losses.allow_change_of_min_isr():
            self._raised = True
            self._losses.min_isr_changes()
            self._alter(cluster, _ALL_BROKERS, _MIN_ISR, str(self._min_isr + 1))

    def _balance(self, cluster: SimulatedCluster, every: str) -> None:
        """EL-7: have leaders balanced so often."""
        if not self.stopped:
            self._alter(cluster, _ALL_BROKERS, "leader.imbalance.check.interval.seconds", every, _BALANCING)

    def _alter(self, cluster: SimulatedCluster, topic: str, key: str, value: str | None, stream: str = _STREAM) -> None:
        self._touched[topic, key] = None
        operation = ConfigOperation(key, 1 if value is None else 0, value)
        kind = ResourceType.TOPIC if topic else ResourceType.BROKER
        request = IncrementalAlterConfigsRequest((ConfigResource(kind, topic, (operation,)),))
        broker = self._brokers[cluster.choices[stream].draw("by which broker", len(self._brokers))]
        self._request += 1
        cluster.send_from_client(self.client_id, self._request, broker, request, _TIMEOUT_MS)

    @staticmethod
    def _in_force(cluster: SimulatedCluster, topic: str, key: str) -> str | None:
        """What the active controller has of a setting; None too if there is no such controller."""
        controller = leading(cluster)
        image = controller.image if controller is not None else None
        if image is None:
            return None
        found = image.topics.get(topic)
        return (found.configs if found is not None else image.configs).get(key)

    def restore(self, cluster: SimulatedCluster) -> None:
        """Alter no more, and set everything back, again and again: a late request may undo it."""
        self.stopped = True
        if leading(cluster) is not None:
            for topic, key in self._touched:
                before = self._initial.get(key) if topic else None
                wanted = str(self._min_isr) if key == _MIN_ISR else before
                if self._in_force(cluster, topic, key) != wanted:
                    self._alter(cluster, topic, key, wanted)
        cluster.after(_RESTORE_MS * MS, self.restore, cluster)
