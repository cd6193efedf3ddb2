from __future__ import annotations

import pytest

from broker.core.metadata.records import BrokerChanged, BrokerRegistered, TopicCreated
from harness.simulation.observer.knowledge import Knowledge
from harness.simulation.scenario import settings_of
from harness.simulation.swarm import Configuration
from harness.simulation.tape import Tape
from harness.simulation.world import World


@pytest.fixture
def knowledge() -> Knowledge:
    """What is known of three active brokers and a topic without partitions."""
    world = World(Tape(1), settings_of(Configuration()))
    known = Knowledge.of(world)
    for broker in (1, 2, 3):
        known.image.apply(0, BrokerRegistered(broker, f"{broker}/1", (), None, broker))
        known.image.apply(0, BrokerChanged(broker, fenced=False, in_controlled_shutdown=False))
    known.image.apply(2, TopicCreated("log", "id"))
    return known
