from __future__ import annotations

import pytest

from broker.core.metadata.records import BrokerChanged, BrokerRegistered, TopicCreated
from simulation.engine.choices import ChoiceSequence
from simulation.engine.cluster import SimulatedCluster
from simulation.invariants.knowledge import Knowledge
from simulation.scenario.configuration import Configuration
from simulation.scenario.scenario import settings_of


@pytest.fixture
def knowledge() -> Knowledge:
    """What is known of three active brokers and a topic without partitions."""
    cluster = SimulatedCluster(ChoiceSequence(1), settings_of(Configuration()))
    known = Knowledge.of(cluster)
    for broker in (1, 2, 3):
        known.image.apply(0, BrokerRegistered(broker, f"{broker}/1", (), None, broker))
        known.image.apply(0, BrokerChanged(broker, fenced=False, in_controlled_shutdown=False))
        known.brokers[broker].broker_epoch = broker
    known.brokers[3].up = True  # the one that tests have elected
    known.image.apply(2, TopicCreated("log", "id"))
    return known
