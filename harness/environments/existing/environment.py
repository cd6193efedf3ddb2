"""The environment of a run against a cluster that Harrow did not start: clients here, nodes by their hooks alone."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from harness.environments.base import Address, EnvironmentFailed, NodePlan, Process
from harness.environments.common.cluster import ClusterUnderTest, SpawnedAdministrator
from harness.environments.common.environment import run_client
from harness.environments.common.layout import place_for_sockets
from harness.environments.existing.hooks import HookRunner
from harness.environments.existing.leftovers import TOPIC, remove
from harness.environments.existing.node import HookedNode
from harness.environments.existing.out_of_reach import HookedNetwork
from harness.environments.machine.helpers.helper import HelperRefused
from harness.environments.machine.helpers.supervisor import Supervisor
from harness.environments.machine.helpers.supervisor_process import SupervisorSettings
from harness.environments.machine.kernel.process_identity import RUN_MARK
from harness.store.journal import Journal
from harness.systems.existing import ExistingCluster
from nemesis.capabilities.cluster import CLIENTS, Capability, Endpoint

NOT_OURS = (
    "how nodes are run, their settings, disks, clocks and network; whatever else uses, changes or restarts the cluster"
)


class ExistingEnvironment:
    """Implements `harness.environments.base.Environment`. Nothing of the cluster is changed before `set_up`."""

    def __init__(self, run_directory: Path, system: ExistingCluster, journal: Journal) -> None:
        self._system = system
        self._journal = journal
        self._undo = ExitStack()
        self._supervisor: Supervisor | None = None
        self._cluster: ClusterUnderTest[HookedNode, HookedNetwork] | None = None
        nodes = run_directory.absolute() / "nodes"
        self.plans: Sequence[NodePlan] = [
            NodePlan(broker, "broker", nodes / str(broker), nodes / str(broker), nodes / str(broker), "files")
            for broker in sorted(system.found.brokers)
        ]
        self._log = nodes / "administration.log"

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Which kinds of fault are possible depends on the hooks; see `harness.environments.possible_faults`."""
        return frozenset()

    @property
    def mechanisms(self) -> Mapping[str, str]:
        """Descriptions of the mechanisms, for the report."""
        hooks = ", ".join(self._system.definition.hooks.by_name)
        return {
            "faults": f"the hooks {hooks} of {self._system.name}" if hooks else "none: the definition has no hooks",
            "not in Harrow's hands": NOT_OURS,
        }

    @property
    def addresses(self) -> AdvertisedAddresses:
        """Where the brokers say that clients reach them."""
        return AdvertisedAddresses(self._system.found.brokers)

    @property
    def cluster(self) -> ClusterUnderTest[HookedNode, HookedNetwork]:
        """The cluster that faults act on. Available after set-up."""
        if self._cluster is None:
            raise EnvironmentFailed("expected the environment to be set up, found that it is not")
        return self._cluster

    def set_up(self) -> None:
        """Start what runs clients, and note what has to be removed at the end."""
        token = secrets.token_hex(8)
        self._journal.record("run", token=token, sockets=str(place_for_sockets() / f"harrow-{token}"))
        settings = SupervisorSettings(network=False, mounts=False, endpoints=(CLIENTS,))
        try:
            self._supervisor = Supervisor(settings, {RUN_MARK: token})
        except (HelperRefused, OSError) as error:
            raise EnvironmentFailed(f"expected to set the clients up, found: {error}") from error
        self._undo.callback(self._supervisor.close)
        self._journal.record("keeper", pid=self._supervisor.pid)
        nodes = {plan.node_id: self._node(plan) for plan in self.plans}
        administrator = SpawnedAdministrator(
            self.spawn_client, self.addresses, self.plans, self._log, self._system.spec.client_config
        )
        self._cluster = ClusterUnderTest(
            nodes, HookedNetwork(nodes), self.capabilities, self._system, self.plans, administrator
        )
        self._journal.record(TOPIC, **self._own())

    def _own(self) -> Mapping[str, object]:
        bootstrap = [f"{host}:{port}" for host, port in self._system.found.brokers.values()]
        return {
            "bootstrap": bootstrap,
            "topic": self._system.topic,
            "groups": list(self._system.groups),
            "client_config": self._system.spec.client_config,
        }

    def _node(self, plan: NodePlan) -> HookedNode:
        hooks = HookRunner(plan.node_id, self._system.hooks_of(plan.node_id), self._journal)
        return HookedNode(plan, hooks, lambda: self._system.serves(plan, self.plans))

    def spawn_client(self, command: Sequence[str], log: Path) -> Process:
        """Run a client process on this machine, with pipes for standard input and output."""
        if self._supervisor is None:
            raise EnvironmentFailed("expected the environment to be set up, found that it is not")
        return run_client(self._supervisor, self._journal, command, log)

    def tear_down(self) -> None:
        """Heal what a hook has hurt, remove the run's topic and groups, end the clients. Safe at any time, and twice.

        Raises `EnvironmentFailed` if something is left in the cluster: the journal stays open for `harrow heal`.
        """
        cluster, self._cluster = self._cluster, None
        left = [failure for node in cluster.nodes.values() for failure in node.heal()] if cluster is not None else []
        self._undo.close()
        if cluster is not None:
            own = self._own()
            trouble = remove(own["bootstrap"], own["topic"], own["groups"], own["client_config"])  # type: ignore[arg-type]
            left += [f"expected to remove the topic {self._system.topic}, found that it {trouble}"] if trouble else []
        if left:
            raise EnvironmentFailed("; ".join(left))


class AdvertisedAddresses:
    """Implements `harness.environments.base.Addresses`: one listener, the same from everywhere."""

    def __init__(self, brokers: Mapping[int, Address]) -> None:
        self._brokers = brokers

    def bind(self, node_id: int, listener: str) -> Address:  # noqa: ARG002
        """The address that the broker advertises."""
        return self._brokers[node_id]

    def reach(self, source: Endpoint, node_id: int, listener: str) -> Address:  # noqa: ARG002
        """The address that the broker advertises."""
        return self._brokers[node_id]
