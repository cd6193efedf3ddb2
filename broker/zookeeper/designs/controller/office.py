"""Elects the controller, and runs it: what it reads when it begins, and what it sees to one after the other."""

from __future__ import annotations

from broker.core.messages.leadership import LiveBroker
from broker.core.ports.coordination import Answer, CallError, Create, GetChildren, GetData, SetData
from broker.core.ports.marks import sometimes
from broker.zookeeper import paths
from broker.zookeeper.designs.controller import deletion, elections, orders, znodes
from broker.zookeeper.designs.controller.state import Office, Task, TaskKind
from broker.zookeeper.procedures import Steps, Until
from broker.zookeeper.state import ZooKeeperState

TOOK_OFFICE = sometimes("zookeeper: a broker becomes the controller")
RESIGNED = sometimes("zookeeper: a controller hears that its session has expired, and resigns")
OUTPACED = sometimes("zookeeper: a broker wins the controller znode, and another counts its epoch first")
BROKER_GONE = sometimes("zookeeper: the controller sees that a broker is gone")
MISSED = sometimes("zookeeper: a broker was away between two looks of the controller (KAFKA-1120)")
BROKER_CAME = sometimes("zookeeper: the controller sees a new broker")

CANDIDATE = "controller-election"
OFFICE = "controller-office"

BALANCE_MS = 5_000
"""How often preferred replicas are made leaders; Kafka's default is five minutes, longer than a simulation takes."""


# --- election --------------------------------------------------------------------------------------------------------


def stand(zk: ZooKeeperState) -> Steps[None]:
    """Create the controller znode; or else watch the one that there is."""
    while True:
        created: Answer = yield Create(znodes.CONTROLLER, paths.encoded((zk.broker_id,)), ephemeral=True)
        found: Answer = yield GetData(znodes.CONTROLLER, watch=True)
        if found.stat is not None and found.stat.owner == zk.session:
            if zk.controlled.office is None:
                yield from _take_office(zk)
            return
        if found.stat is not None and created.error is not None:
            return


def resign(zk: ZooKeeperState) -> None:
    """Be the controller no more: nothing that waits is sent."""
    zk.procedures.cancel(CANDIDATE)
    zk.procedures.cancel(OFFICE)
    office = zk.controlled.office
    if office is not None:
        zk.broker.runtime.mark(RESIGNED)
        zk.broker.runtime.log("info", f"resigns as controller {office.epoch}")
        for broker_id in list(office.orders):
            orders.drop(zk, office, broker_id)
        deletion.give_up(zk, office)
        zk.controlled.office = None


def _take_office(zk: ZooKeeperState) -> Steps[None]:
    """Raise the controller epoch. Of two that do so at once one fails: the write is conditional on the version read."""
    found: Answer = yield GetData(znodes.EPOCH)
    assert found.stat is not None
    epoch = znodes.decoded_number(found.data, znodes.EPOCH, "the number of a controller") + 1
    counted: Answer = yield SetData(znodes.EPOCH, str(epoch).encode(), found.stat.version)
    if counted.error is CallError.BAD_VERSION:
        zk.broker.runtime.mark(OUTPACED)
        return
    zk.broker.runtime.mark(TOOK_OFFICE)
    zk.broker.runtime.log("info", f"is controller {epoch}")
    zk.controlled.office = Office(epoch, balance_at_ms=zk.broker.runtime.now_ms + BALANCE_MS)
    zk.procedures.start(OFFICE, _preside(zk, zk.controlled.office))


# --- office ----------------------------------------------------------------------------------------------------------


def look_again(zk: ZooKeeperState, kind: TaskKind) -> None:
    """A watch has fired, or all are gone: have the controller see to it."""
    office = zk.controlled.office
    if office is not None:
        office.tasks.append(Task(kind))


def _preside(zk: ZooKeeperState, office: Office) -> Steps[None]:
    """Read everything, elect where it is needed, tell everybody everything; then see to one task after the other."""
    yield from _read_brokers(zk, office)
    yield from elections.read_topics(office)
    yield from deletion.begin(zk, office)
    for key in sorted(office.assigned):
        yield from elections.settle(zk, office, key)
    orders.announce(zk, office, sorted(office.assigned))
    while True:
        wait_ms = office.balance_at_ms - zk.broker.runtime.now_ms
        if not office.tasks and (wait_ms <= 0 or not (yield Until(lambda: bool(office.tasks), wait_ms))):
            office.balance_at_ms = zk.broker.runtime.now_ms + BALANCE_MS
            office.tasks.append(Task(TaskKind.PREFERRED))
        yield from _see_to(zk, office, office.tasks.popleft())


def _see_to(zk: ZooKeeperState, office: Office, task: Task) -> Steps[None]:
    match task.kind:
        case TaskKind.BROKERS:
            yield from _brokers_changed(zk, office)
        case TaskKind.TOPICS:
            before = set(office.assigned)
            yield from elections.read_topics(office)
            added = sorted(set(office.assigned) - before)
            for key in added:
                yield from elections.settle(zk, office, key)
            orders.announce(zk, office, added)
        case TaskKind.DELETIONS:
            yield from deletion.begin(zk, office)
        case TaskKind.PREFERRED:
            yield from elections.prefer(zk, office)
        case TaskKind.SHUTDOWN:
            yield from elections.let_go(zk, office, task)


def _brokers_changed(zk: ZooKeeperState, office: Office) -> Steps[None]:
    """`onBrokerFailure`, `onBrokerStartup`: a broker that came back between two looks is not noticed (KAFKA-1120)."""
    before = set(office.live)
    yield from _read_brokers(zk, office)
    if office.missed:
        zk.broker.runtime.mark(MISSED)
    gone, came = sorted(before - set(office.live)), sorted(set(office.live) - before)
    for broker_id in gone:
        zk.broker.runtime.mark(BROKER_GONE)
        orders.drop(zk, office, broker_id)
    office.stopping &= before & set(office.live)
    if came:
        zk.broker.runtime.mark(BROKER_CAME)
    if came or gone:
        orders.announce(zk, office, ())
    changed = []
    for key in sorted(office.assigned):
        if (yield from elections.settle(zk, office, key)):
            changed.append(key)
    if changed:
        orders.announce(zk, office, changed)
    rest = [key for key in sorted(office.assigned) if key not in changed]
    orders.announce(zk, office, rest, came, informed=bool(came))


def _read_brokers(zk: ZooKeeperState, office: Office) -> Steps[None]:
    live, sessions = {}, {}
    for name in (yield GetChildren(paths.IDS, watch=True)).children:
        found: Answer = yield GetData(f"{paths.IDS}/{name}")
        if found.error is None:
            live[int(name)] = LiveBroker(int(name), *paths.decoded_address(found.data, f"{paths.IDS}/{name}"))
            assert found.stat is not None
            sessions[int(name)] = found.stat.owner
    away = {one for one in live if office.sessions.get(one, sessions[one]) != sessions[one]}
    office.missed = (office.missed & set(office.live) & set(live)) | away
    office.live, office.sessions = live, sessions
    zk.addresses |= {one.node_id: (one.host, one.port) for one in live.values()}
