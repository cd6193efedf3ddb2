"""Definitions of systems for tests, and plans of clusters that are never started."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.environments.base import NodePlan
from harness.environments.common.layout import roles
from harness.spec.spec import Spec, resolve
from harness.systems.factory import make_system, with_defaults
from harness.systems.foreign import ForeignBroker
from nemesis.capabilities.cluster import NodeRole

ROOT = Path(__file__).parents[2]
MINIMAL = """
name = "least"
brokers-max = 1

[defaults]
brokers = 1
replication-factor = 1
min-insync-replicas = 1

[broker]
start = ["sleep", "60"]
"""


class Links:
    """All nodes reach each other at other addresses than those that are bound."""

    def bind(self, node_id: int, listener: str) -> tuple[str, int]:
        ports = {"CLIENT": 9092, "BROKER": 9093, "CONTROLLER": 9094, "RPC": 9095, "ADMIN": 9096}
        return f"10.0.0.{node_id}", ports[listener]

    def reach(self, source: int, node_id: int, listener: str) -> tuple[str, int]:
        return "127.0.0.1", self.bind(node_id, listener)[1] + 100 * source + 10 * node_id


def spec_for(definition: Path, **given: object) -> Spec:
    """As `harrow run --system` makes it."""
    return resolve(with_defaults({"system": str(definition), **given}), 1)


def made(definition: Path, **given: object) -> ForeignBroker:
    system = make_system(spec_for(definition, **given))
    assert isinstance(system, ForeignBroker)
    return system


def plans_of(spec: Spec, directory: Path) -> Sequence[NodePlan]:
    def plan(node_id: int, role: NodeRole) -> NodePlan:
        own = directory / str(node_id)
        own.mkdir(exist_ok=True)
        return NodePlan(node_id, role, own, own / "data", own / "socket", "files")

    planned = roles(spec.brokers, spec.controllers, combined=spec.combined)
    return [plan(node_id, role) for node_id, role in planned.items()]


OWN_AS_FOREIGN = '''
name = "own"
version = ["sh", "-c", "echo broker 9"]

[broker]
listeners = ["CLIENT", "BROKER"]
once = [["sh", "-c", "echo made >> {{ directory }}/prepared.txt; echo kept > {{ data }}/made"]]
prepare = [["sh", "-c", "echo prepared >> {{ directory }}/prepared.txt"]]
start = ["{{ python }}", "-m", "broker.shell", "{{ directory }}/node.properties"]
stop = ["sh", "-c", "echo stopping {{ pid }}; kill -TERM {{ pid }}"]
logs = ["extra.log"]

[broker.environment]
MARK = "node-{{ node.id }}"

[broker.files]
"extra.log" = "a line of {{ node.id }}"
"node.properties" = """
process.roles=broker
node.id={{ node.id }}
controller.quorum.voters={{ controllers[0].id }}@{{ controllers[0].reach.CONTROLLER }}
listeners=CLIENT://{{ bind.CLIENT }},BROKER://{{ bind.BROKER }}
advertised.listeners=CLIENT://{{ advertised.CLIENT }},BROKER://{{ advertised.BROKER }}
log.dirs={{ data }}
auto.create.topics.enable=false
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=400
controlled.shutdown.timeout.ms=5000
"""

[controller]
start = ["{{ python }}", "-m", "broker.shell", "{{ directory }}/node.properties"]

[controller.files]
"node.properties" = """
process.roles=controller
node.id={{ node.id }}
controller.quorum.voters={{ node.id }}@{{ bind.CONTROLLER }}
listeners=CONTROLLER://{{ bind.CONTROLLER }}
log.dirs={{ data }}
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=400
"""
'''
"""Harrow's own broker, defined without its admin endpoint, as a third-party broker."""

OWN_AS_COMBINED = f'''{OWN_AS_FOREIGN}
[combined]
listeners = ["CLIENT", "BROKER", "CONTROLLER"]
start = ["{{{{ python }}}}", "-m", "broker.shell", "{{{{ directory }}}}/node.properties"]

[combined.files]
"node.properties" = """
process.roles=broker,controller
node.id={{{{ node.id }}}}
controller.quorum.voters=\\
{{% for each in controllers %}}
{{{{ each.id }}}}@{{{{ each.reach.CONTROLLER }}}}{{{{ "," if not loop.last else "" }}}}\\
{{% endfor %}}

listeners=CLIENT://{{{{ bind.CLIENT }}}},BROKER://{{{{ bind.BROKER }}}},CONTROLLER://{{{{ bind.CONTROLLER }}}}
advertised.listeners=CLIENT://{{{{ bind.CLIENT }}}},BROKER://{{{{ bind.BROKER }}}},\\
CONTROLLER://{{{{ bind.CONTROLLER }}}}
log.dirs={{{{ data }}}}
auto.create.topics.enable=false
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=400
"""
'''
"""The same, also with nodes that are broker and controller."""
