"""A cluster that Harrow did not start, as the system under test: it is asked over Kafka's protocol from here.

Only the run's own topic is looked at and touched.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from common.names import SpecError
from common.security import PLAIN_TEXT, Security
from harness.environments.base import NodePlan, Traits
from harness.environments.existing.discovery import FoundCluster, security_of
from harness.spec.spec import Spec
from harness.systems.admin_endpoint import NoAnswer, PageAt, State
from harness.systems.definition import Definition
from harness.systems.foreign import ForeignBroker
from harness.systems.hooks import Hook
from harness.systems.runtime import here
from harness.systems.sidecar.config import SidecarConfig
from harness.systems.sidecar.probe import BrokerProbe
from harness.systems.sidecar.wire import NodeSilent
from harness.systems.templating import Bound, TemplateError, filled
from nemesis.capabilities.cluster import Capability

READERS = ("readers-a", "readers-b")
NOWHERE = FoundCluster("", {})
_KEPT = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
"""Settings of the run's topic that keep every record, whatever the cluster's defaults are."""


@dataclass
class _Asked:
    """A broker that is asked by one thread at a time."""

    probe: BrokerProbe
    turn: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class ExistingCluster(ForeignBroker):
    """Implements `harness.environments.base.System`."""

    found: FoundCluster = NOWHERE
    topic: str = ""
    security: Security = PLAIN_TEXT
    _asked: dict[int, _Asked] = field(default_factory=dict)

    @classmethod
    def of(cls, spec: Spec, definition: Definition, found: FoundCluster, topic: str) -> ExistingCluster:
        """Make it, and check its hooks. Raises `SpecError`."""
        runtimes = dict.fromkeys(found.brokers, here(definition))
        security = security_of(spec.client_config)
        system = cls(spec, definition, runtimes, found=found, topic=topic, security=security)
        for broker in found.brokers:
            for name, hook in system.hooks_of(broker).items():
                for program in (hook.command[0], *(hook.verify or ())[:1]):
                    if shutil.which(program) is None:
                        raise SpecError(
                            f"{definition.path}: hooks.{name}: expected the program {program!r}, found none of that "
                            "name; see docs/guide/your-own-cluster.md"
                        )
        return system

    @property
    def groups(self) -> Sequence[str]:
        """Names of the consumer groups of the run."""
        return [f"{self.topic}-{name}" for name in READERS]

    @property
    def traits(self) -> Traits:
        """Those of the definition, with names of the run's own."""
        traits = super().traits
        versions = (
            {**traits.versions, "cluster id": self.found.cluster_id} if self.found.cluster_id else traits.versions
        )
        unclean = str(self.spec.unclean_election).lower()
        settings = {"unclean.leader.election.enable": unclean, **_KEPT}
        return replace(traits, topic=self.topic, topic_settings=settings, groups=tuple(self.groups), versions=versions)

    def offsets_partition_of(self, group: str) -> int | None:  # noqa: ARG002
        """None: the topic that stores groups has those of others, too, and is not looked at."""
        return None

    def cannot(self, network: str, page_cache: str) -> frozenset[Capability]:  # noqa: ARG002
        """Hooks are not selected by capabilities."""
        return frozenset()

    def hooks_of(self, broker: int) -> Mapping[str, Hook]:
        """The hooks with their templates filled in for a broker. Raises `SpecError`."""
        address = Bound(self.found.brokers[broker])
        names = {
            **self.runtimes[broker].names,
            "node": {"id": broker, "address": str(address), "host": address.host, "port": address.port},
            "bootstrap": self.spec.bootstrap,
        }
        try:
            return {
                name: replace(
                    hook,
                    command=filled(hook.command, names),
                    verify=None if hook.verify is None else filled(hook.verify, names),
                )
                for name, hook in self.definition.hooks.by_name.items()
            }
        except TemplateError as error:
            raise SpecError(
                f"{self.definition.path}: hooks: expected templates that can be filled in, found: {error}"
            ) from error

    def serves(self, plan: NodePlan, plans: Sequence[NodePlan]) -> bool:
        """Whether a broker answers, and every other broker that answers knows it."""
        if self._state(plan) is None:
            return False
        others = [state for other in plans if other != plan and (state := self._state(other)) is not None]
        return all(plan.node_id in state["brokers"] for state in others)

    def _state(self, plan: NodePlan) -> State | None:
        return self._ask(plan, BrokerProbe.state)

    def _ask(self, plan: NodePlan, question: Callable[[BrokerProbe], State]) -> State | None:
        asked = self._asked.setdefault(plan.node_id, _Asked(BrokerProbe(self._config(plan), self.security)))
        with asked.turn:
            try:
                return question(asked.probe)
            except NodeSilent:
                return None

    def _finalized(self, plan: NodePlan) -> Mapping[str, int] | None:
        found = self._ask(plan, lambda probe: {"levels": probe.finalized_features()})
        if found is None:
            raise NoAnswer(f"broker {plan.node_id} did not answer")
        levels: Mapping[str, int] | None = found["levels"]
        return levels

    def _page_of(self, plan: NodePlan, topic: str, partition: int) -> PageAt:
        def page(offset: int, limit: int) -> State:
            found = self._ask(plan, lambda probe: probe.log(topic, partition, offset, limit))
            if found is None:
                raise NoAnswer(f"broker {plan.node_id} did not answer")
            return found

        return page

    def _config(self, plan: NodePlan) -> SidecarConfig:
        return SidecarConfig(
            node_id=plan.node_id,
            role="broker",
            once=(),
            prepare=(),
            command=(),
            environment={},
            directory="",
            data="",
            socket="",
            address=self.found.brokers[plan.node_id],
            nodes={},
            ready="kafka",
            ready_command=(),
            topics=[self.topic],
        )
