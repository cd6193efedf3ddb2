"""Administration faults on a real cluster: the state that it reports before, during and after them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.environments.machine.environment import MachineEnvironment
from harness.spec.spec import Spec
from harness.systems.own.harrow_broker import HarrowBroker
from nemesis.capabilities.cluster import NodeError, PartitionView
from nemesis.faults import KINDS
from nemesis.faults.base import Site
from tests.harness.environments.conftest import ENVIRONMENTS, cluster_in
from tests.support.real_faults import fire, real_site

pytestmark = pytest.mark.cluster


TOPIC = "harrow"


@pytest.fixture(scope="module", params=ENVIRONMENTS)
def environment(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MachineEnvironment]:
    directory = tmp_path_factory.mktemp("administration")
    system = HarrowBroker(Spec(seed=1, replication_factor=2, min_insync_replicas=1))
    with cluster_in(request.param, directory, system, brokers=3, network="proxies", page_cache="page-cache") as made:
        made.cluster.administrator.create_topic(TOPIC, 2, 2)
        yield made


@pytest.fixture
def site(environment: MachineEnvironment) -> Site:
    return real_site(environment)


def views(environment: MachineEnvironment) -> dict[tuple[str, int], PartitionView]:
    return {(view.topic, view.partition): view for view in environment.cluster.partitions()}


def test_a_topic_comes_grows_and_goes(environment: MachineEnvironment, site: Site) -> None:
    with fire(site, "topic-churn", (1,), {"pick": "1"}) as fault:
        assert "then given 3" in fault.evidence
        assert len(views(environment)) == 2 + 3
    assert set(views(environment)) == {(TOPIC, 0), (TOPIC, 1)}


def test_a_replica_moves_to_another_broker_and_back(environment: MachineEnvironment, site: Site) -> None:
    before = views(environment)[TOPIC, 1]
    with fire(site, "reassignment", (1,), {"pick": "1"}):
        meanwhile = views(environment)[TOPIC, 1]
        assert len(set(meanwhile.replicas) & set(before.replicas)) == 1
        assert len(meanwhile.isr) == 2
    after = views(environment)[TOPIC, 1]
    assert (after.replicas, set(after.isr)) == (before.replicas, set(before.replicas))


def test_a_broker_leaves_and_comes_back_with_its_replicas(environment: MachineEnvironment, site: Site) -> None:
    before = {key: view.replicas for key, view in views(environment).items()}
    (target, *_) = before[TOPIC, 0]
    with fire(site, "broker-removal", (target,)):
        assert not environment.cluster.nodes[target].is_alive()
        assert all(target not in view.replicas and len(view.isr) == 2 for view in views(environment).values())
    assert {key: view.replicas for key, view in views(environment).items()} == before


def test_another_replica_is_preferred_and_leads(environment: MachineEnvironment, site: Site) -> None:
    before = views(environment)[TOPIC, 0]
    with fire(site, "preferred-election", (1,), {"pick": "0"}):
        assert views(environment)[TOPIC, 0].leader != before.leader
    assert views(environment)[TOPIC, 0].replicas == before.replicas


def test_min_isr_is_raised_for_a_while(environment: MachineEnvironment, site: Site) -> None:
    administrator = environment.cluster.administrator
    with fire(site, "raised-min-isr", (1,)) as fault:
        assert administrator.setting(TOPIC, "min.insync.replicas") == "2"
        assert "raised from 1 to 2" in fault.evidence
    assert administrator.setting(TOPIC, "min.insync.replicas") == "1"


def test_a_refusal_of_the_cluster_is_reported(environment: MachineEnvironment) -> None:
    with pytest.raises(NodeError, match=r"expected to create-topic harrow, found: .*TopicAlreadyExists"):
        environment.cluster.administrator.create_topic(TOPIC, 1, 1)


def test_every_act_of_administration_is_shown_here() -> None:
    assert {name for name, kind in KINDS.items() if kind.family == "administration"} == {
        "topic-churn",
        "reassignment",
        "preferred-election",
        "raised-min-isr",
        "broker-removal",
    }
