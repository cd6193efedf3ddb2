"""Deletes topics as the controller: clients hear of one no more, its replicas delete their logs, it leaves the tree."""

from __future__ import annotations

from functools import partial

from broker.core.messages.leadership import LEADER_DURING_DELETE, StopReplicaRequest, UpdateMetadataRequest
from broker.core.ports.coordination import Delete, GetChildren
from broker.core.ports.marks import sometimes
from broker.zookeeper import paths
from broker.zookeeper.designs.controller import orders, znodes
from broker.zookeeper.designs.controller.state import Office, Task, TaskKind
from broker.zookeeper.paths import Key
from broker.zookeeper.procedures import Steps, Until
from broker.zookeeper.requests.deletion import DELETED
from broker.zookeeper.state import ZooKeeperState

REPLICA_AWAY = sometimes("zookeeper: the controller waits with a deletion for a broker that is down")

DELETION = "topic-deletion"
_LOOK_AGAIN_MS = 5_000


def begin(zk: ZooKeeperState, office: Office) -> Steps[None]:
    """Begin with the topics that are asked for; from now on nobody is elected for them.

    Each is deleted by a procedure of its own, since it waits for brokers; the controller's other tasks do not.
    """
    for name in (yield GetChildren(znodes.DELETIONS, watch=True)).children:
        if name not in office.deleting:
            office.deleting.add(name)
            replicas: dict[int, list[Key]] = {}
            gone = []
            for key in [key for key in sorted(office.assigned) if key[0] == name]:
                for broker_id in office.assigned.pop(key):
                    replicas.setdefault(broker_id, []).append(key)
                if key in office.states:
                    gone.append(office.states.pop(key)._replace(leader=LEADER_DURING_DELETE))
            live = tuple(office.live[broker_id] for broker_id in sorted(office.live))
            for broker_id in sorted(office.live):
                orders.put(zk, office, broker_id, UpdateMetadataRequest(zk.broker_id, office.epoch, tuple(gone), live))
            zk.procedures.start((DELETION, name), _delete(zk, office, name, replicas))


def give_up(zk: ZooKeeperState, office: Office) -> None:
    """Stop deleting: this broker is the controller no more, and the next one starts the deletions again."""
    for name in sorted(office.deleting):
        zk.procedures.cancel((DELETION, name))


def _delete(zk: ZooKeeperState, office: Office, name: str, replicas: dict[int, list[Key]]) -> Steps[None]:
    obeyed: set[int] = set()
    asked: dict[int, int] = {}  # broker -> the session in which it was
    while len(obeyed) < len(replicas):
        for broker_id, keys in sorted(replicas.items()):
            session = office.sessions.get(broker_id)
            if session is None:
                zk.broker.runtime.mark(REPLICA_AWAY)
            elif broker_id not in obeyed and asked.get(broker_id) != session:
                asked[broker_id] = session
                request = StopReplicaRequest(zk.broker_id, office.epoch, tuple(keys), delete_partitions=True)
                orders.put(zk, office, broker_id, request, partial(obeyed.add, broker_id))
        yield Until(partial(_has_changed, office, obeyed, len(obeyed), dict(office.sessions)), _LOOK_AGAIN_MS)
    for number in (yield GetChildren(znodes.partitions(name))).children:
        yield Delete(f"{znodes.partitions(name)}/{number}/state")
        yield Delete(f"{znodes.partitions(name)}/{number}")
    for path in (znodes.partitions(name), paths.topic(name), znodes.deletion(name)):
        yield Delete(path)
    zk.broker.runtime.mark(DELETED)
    office.deleting.discard(name)
    office.tasks.append(Task(TaskKind.TOPICS))  # it may have been created again


def _has_changed(office: Office, obeyed: set[int], before: int, sessions: dict[int, int]) -> bool:
    return len(obeyed) != before or office.sessions != sessions
