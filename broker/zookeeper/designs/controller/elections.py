"""The controller's decisions on partitions: who leads, who stays in sync; each is a write that expects a version."""

from __future__ import annotations

from collections.abc import Callable

from broker.core.messages import NO_LEADER
from broker.core.messages.errors import ErrorCode
from broker.core.messages.leadership import ControlledShutdownResponse, PartitionLeadership
from broker.core.ports.coordination import Answer, Create, GetChildren, GetData, SetData
from broker.core.ports.marks import sometimes
from broker.zookeeper import paths
from broker.zookeeper.designs.controller import orders, znodes
from broker.zookeeper.designs.controller.state import Office, Task
from broker.zookeeper.designs.controller.znodes import PartitionState
from broker.zookeeper.paths import Key
from broker.zookeeper.procedures import Steps
from broker.zookeeper.state import ZooKeeperState

ELECTED = sometimes("zookeeper: the controller elects a leader from the live ISR members")
NOBODY_LEADS = sometimes("zookeeper: no ISR member is live, the controller leaves a partition without leader")
REMOVED = sometimes("zookeeper: the controller takes a broker that is gone out of an ISR")
PREFERRED = sometimes("zookeeper: the controller makes the preferred replica leader")
CHANGED_MEANWHILE = sometimes("zookeeper: a leader has changed the ISR before the controller's write")
SUPERSEDED = sometimes("zookeeper: a controller finds that a later one has written, and leaves the partition alone")
STOPPING = sometimes("zookeeper: a broker that stops hands its leaderships over (controlled shutdown)")

Change = Callable[[PartitionState, tuple[int, ...]], tuple[int, tuple[int, ...]] | None]
"""From a partition's state and its assigned replicas the new leader and ISR; None for no change."""


def read_topics(office: Office) -> Steps[None]:
    """The assignments of all topics but those that are being deleted."""
    for name in (yield GetChildren(paths.TOPICS, watch=True)).children:
        found: Answer = yield GetData(paths.topic(name), watch=True)
        if found.error is None and name not in office.deleting:
            for number, replicas in znodes.decoded_assignment(found.data, paths.topic(name)).items():
                office.assigned[name, number] = replicas


def settle(zk: ZooKeeperState, office: Office, key: Key) -> Steps[bool]:
    """Give a partition a live leader and take who is gone out of its ISR; whether that has changed anything.

    The last member of an ISR stays in it, so that nobody else is elected (no unclean election).
    """
    if not (yield from _begin(office, key)):
        return False

    def change(state: PartitionState, replicas: tuple[int, ...]) -> tuple[int, tuple[int, ...]] | None:
        isr = tuple(one for one in state.isr if one in office.live) or state.isr
        if state.leader in office.live:
            leader = state.leader
        else:
            leader = next((one for one in replicas if _may_lead(office, one, isr)), NO_LEADER)
        if (leader, isr) == (state.leader, state.isr):
            return None
        changed_leader = leader != state.leader
        zk.broker.runtime.mark((NOBODY_LEADS if leader == NO_LEADER else ELECTED) if changed_leader else REMOVED)
        return leader, isr

    return (yield from _change(zk, office, key, change))


def prefer(zk: ZooKeeperState, office: Office) -> Steps[None]:
    """Make the preferred replicas leaders that are live and in sync; the ISR stays as it is."""

    def change(state: PartitionState, replicas: tuple[int, ...]) -> tuple[int, tuple[int, ...]] | None:
        if state.leader == replicas[0] or not _may_lead(office, replicas[0], state.isr):
            return None
        zk.broker.runtime.mark(PREFERRED)
        return replicas[0], state.isr

    changed = []
    for key, state in sorted(office.states.items()):
        if state.leader != state.replicas[0] and (yield from _change(zk, office, key, change)):
            changed.append(key)
    if changed:
        orders.announce(zk, office, changed)


def let_go(zk: ZooKeeperState, office: Office, task: Task) -> Steps[None]:
    """Controlled shutdown: others lead, the broker leaves the ISRs, and stops its replicas; then it is answered."""
    broker_id = task.broker_id
    if broker_id not in office.live:
        zk.broker.runtime.reply(task.request_id, ControlledShutdownResponse(ErrorCode.BROKER_NOT_AVAILABLE))
        return
    office.stopping.add(broker_id)

    def change(state: PartitionState, replicas: tuple[int, ...]) -> tuple[int, tuple[int, ...]] | None:
        isr = tuple(one for one in state.isr if one != broker_id)
        if not isr or broker_id not in state.isr:
            return None
        if state.leader != broker_id:
            return state.leader, isr
        leader = next((one for one in replicas if _may_lead(office, one, isr)), None)
        if leader is None:
            return None
        zk.broker.runtime.mark(STOPPING)
        return leader, isr

    changed, remaining = [], []
    for key in sorted(office.states):
        if broker_id in office.assigned[key]:
            if (yield from _change(zk, office, key, change)):
                changed.append(key)
            if office.states[key].leader == broker_id:
                remaining.append(key)
    orders.announce(zk, office, changed, [one for one in office.live if one != broker_id])
    followed = [key for key in sorted(office.states) if broker_id in office.assigned[key] and key not in remaining]
    orders.stop_replicas(zk, office, broker_id, tuple(followed))
    zk.broker.runtime.reply(task.request_id, ControlledShutdownResponse(ErrorCode.NONE, tuple(remaining)))


def _may_lead(office: Office, broker_id: int, isr: tuple[int, ...]) -> bool:
    return broker_id in isr and broker_id in office.live and broker_id not in office.stopping


# --- the tree --------------------------------------------------------------------------------------------------------


def _begin(office: Office, key: Key) -> Steps[bool]:
    """Read a partition's state; a new one is led by its first live replica. Whether it has a state."""
    path = znodes.state(key)
    found: Answer = yield GetData(path)
    if found.stat is None:
        live = tuple(one for one in office.assigned[key] if one in office.live)
        if not live:
            return False
        data = znodes.encoded_state(PartitionState(live[0], 0, live, office.epoch))
        yield Create(znodes.partitions(key[0]))
        yield Create(znodes.partition(key))
        yield Create(path, data)
        found = yield GetData(path)
        if found.stat is None:
            return False
    _note(office, key, znodes.decoded_state(found.data, path), found.stat.version)
    return True


def _change(zk: ZooKeeperState, office: Office, key: Key, change: Change) -> Steps[bool]:
    """Read, decide, write what was decided if nobody has written meanwhile, else again; whether it was written."""
    path = znodes.state(key)
    written: bytes | None = None
    while True:
        found: Answer = yield GetData(path)
        if found.stat is None:
            return False
        state = znodes.decoded_state(found.data, path)
        _note(office, key, state, found.stat.version)
        if found.data == written:
            return True  # by an attempt whose answer was lost
        if state.controller_epoch > office.epoch:
            zk.broker.runtime.mark(SUPERSEDED)
            return False
        decided = change(state, office.assigned[key])
        if decided is None:
            return False
        state = PartitionState(decided[0], state.leader_epoch + 1, decided[1], office.epoch)
        written = znodes.encoded_state(state)
        answer: Answer = yield SetData(path, written, found.stat.version)
        if answer.stat is not None:
            _note(office, key, state, answer.stat.version)
            text = f"{key[0]}-{key[1]}: leader {state.leader} in epoch {state.leader_epoch}, ISR {list(state.isr)}"
            zk.broker.runtime.log("info", text)
            return True
        zk.broker.runtime.mark(CHANGED_MEANWHILE)


def _note(office: Office, key: Key, state: PartitionState, version: int) -> None:
    leader, leader_epoch, isr, controller_epoch = state
    office.states[key] = PartitionLeadership(
        *key, leader, leader_epoch, isr, controller_epoch, version, office.assigned[key]
    )
