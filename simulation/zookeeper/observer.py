"""Checks what clusters on ZooKeeper promise, with the tree of znodes for the truth, and says which flaw broke it.

| property | here |
|---|---|
| P-1 | a leader that opens its partition, or wins again while it is open, holds all that was acknowledged by acks=all |
| P-8 | no broker acknowledges such a record while the tree names another one, whose partition is open |
| P-8 | with a controller: … and lacks it; and in one leader epoch one broker leads |
| P-24 | the second design: a leader opens its partition in a higher epoch than all before it |

With a controller P-1 is about the leader of the tree's epoch, and `simulation.zookeeper.evidence` names the flaw. In
the other designs records carry no epochs, so all that a partition lives through is one. What else clients may expect
is checked in their history and in the final logs (`simulation.runs.failures`). Of a record that a leader lacks the
observer has noted who acknowledged it, whether the tree named that broker, which replicas held it, what each of them
cut off to its high watermark, what it deleted because it was asked to close, and what a power failure took; from that
it names the flaw of the design, or none, if none explains it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from broker.core.log.log import Log
from broker.core.messages import UNKNOWN, ProduceRequest, ProduceResponse
from broker.core.messages.errors import ErrorCode
from broker.core.ports.coordination import NO_SESSION
from broker.core.ports.events import Reply, RequestReceived
from broker.zookeeper import paths
from broker.zookeeper.choices import CONTROLLED, V1, V2
from broker.zookeeper.node import ZooKeeperNode
from broker.zookeeper.paths import Key
from broker.zookeeper.requests.producing import SYNCHRONOUS
from broker.zookeeper.state import Hosted
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.invariants.properties import Violation, with_excuse
from simulation.zookeeper.ensemble import SimulatedEnsemble
from simulation.zookeeper.evidence import DELETED_LATE, UNSYNCED, Acknowledged, Evidence, holds
from simulation.zookeeper.views import has_partition, isr_of, leader_of, open_leader, state_of, states

CUT_TO_HIGH_WATERMARK = "Z-01: a replica cuts off what it holds above its own high watermark, and is elected"
TWO_LEADERS = "Z-02: a broker that the tree does not name goes on as leader"
NOT_SYNCED = "Z-04: logs are synced later, and an in-sync replica that lost its end is elected"
ENDS_INSIDE = "Z-04: a replica asks for what lies inside a batch of its leader's, and gets nowhere"
NEVER_HELD = "Z-06, Z-13: a replica that never held it counts as in sync"
DIFFERS = "Z-05: a replica whose log differs below its end follows, since a fetch says only where it ends"
LATE_RACE = "Z-11: a replica wins the race by an ISR that it has read before another was written"
DELETED = "Z-08: a replica deletes its log by a close-replica request, and is elected"


@dataclass(slots=True)
class _Mirror:
    """What is known of one replica in its present process."""

    incarnation: int = 0
    is_open: bool = False
    owner: int = NO_SESSION
    """The session by which the tree last named it as leader."""

    truncations: int = 0
    end: int = 0
    is_hosted: bool = False
    epoch: int = UNKNOWN
    """With a controller: the leader epoch that the broker was last in."""


@dataclass(slots=True)
class _Partition:
    acknowledged: list[Acknowledged] = field(default_factory=list)
    mirrors: dict[int, _Mirror] = field(default_factory=dict)
    cut: dict[int, set[Acknowledged]] = field(default_factory=dict)
    """Broker -> acknowledged batches that it cut off as a follower."""

    lost: dict[int, set[Acknowledged]] = field(default_factory=dict)
    """Broker -> acknowledged batches that were not in its log any more after its power had failed."""

    deleted: dict[int, set[Acknowledged]] = field(default_factory=dict)
    """Broker -> acknowledged batches that went with its log when it closed the replica, and did not come again."""

    epoch: int = 0
    """The highest in which a leader has opened the partition."""

    held: dict[int, set[Acknowledged]] = field(default_factory=dict)
    """Broker -> acknowledged batches that it has had in its log."""

    evidence: Evidence = field(default_factory=Evidence)
    """With a controller: how replicas came to lack what was acknowledged."""


class ZooKeeperObserver:
    """See the module. Raises `Violation`; after that it must not be called any more."""

    def __init__(self) -> None:
        self._partitions: dict[Key, _Partition] = {}
        self._produces: dict[tuple[int, int], bool] = {}  # (broker, request id) -> whether with acks=all
        self._power_lost: set[int] = set()

    def after(self, cluster: SimulatedCluster, step: EventStep) -> None:
        """See `Observer.after`."""
        machine = cluster.machines[step.node_id]
        node = machine.node
        if not isinstance(node, ZooKeeperNode):
            return
        ensemble = cluster.ensemble
        assert isinstance(ensemble, SimulatedEnsemble)
        event = step.event
        if isinstance(event, RequestReceived) and isinstance(event.request, ProduceRequest):
            self._produces[step.node_id, event.request_id] = event.request.acks == SYNCHRONOUS
        self._closed(ensemble, node, step.node_id, machine.incarnation)
        for key, hosted in node.state.hosted.items():
            if has_partition(ensemble.tree, key):  # else it is being created, or deleted, and nothing is promised
                self._replica(cluster, ensemble, step.node_id, machine.incarnation, key, hosted)
        for effect in step.effects:
            if isinstance(effect, Reply) and isinstance(effect.response, ProduceResponse):
                self._answered(cluster, ensemble, node, step.node_id, effect.request_id, effect.response)

    def crashed(self, cluster: SimulatedCluster, node_id: int, lost_bytes: int) -> None:
        """See `Observer.crashed`."""
        if lost_bytes >= 0:  # with none lost, a file may yet end in garbage
            self._power_lost.add(node_id)

    # --- replicas ----------------------------------------------------------------------------------------------------

    def _closed(self, ensemble: SimulatedEnsemble, node: ZooKeeperNode, broker_id: int, incarnation: int) -> None:
        """Note what went with replicas that a broker has closed, and forget partitions that are deleted."""
        for key, partition in list(self._partitions.items()):
            if not has_partition(ensemble.tree, key):
                del self._partitions[key]
                continue
            mirror = partition.mirrors.get(broker_id)
            if key in node.state.hosted or mirror is None or mirror.incarnation != incarnation or not mirror.is_hosted:
                continue
            partition.deleted.setdefault(broker_id, set()).update(partition.held.get(broker_id, ()))
            mirror.is_hosted, mirror.is_open, mirror.truncations, mirror.end = False, False, 0, 0

    def _replica(
        self,
        cluster: SimulatedCluster,
        ensemble: SimulatedEnsemble,
        broker_id: int,
        incarnation: int,
        key: Key,
        hosted: Hosted,
    ) -> None:
        partition = self._partitions.get(key)
        if partition is None:
            partition = self._partitions[key] = _Partition()
        is_seen_first = broker_id not in partition.mirrors
        mirror = partition.mirrors.setdefault(broker_id, _Mirror())
        log = hosted.replica.log
        if mirror.incarnation != incarnation:
            mirror.incarnation, mirror.is_open, mirror.truncations = incarnation, False, 0
            held = partition.held.setdefault(broker_id, set())
            held.update(one for one in partition.acknowledged if holds(log, one))
            missing = {one for one in partition.acknowledged if not holds(log, one)}
            if broker_id in self._power_lost:
                partition.lost.setdefault(broker_id, set()).update(missing)
            elif log.end_offset == 0:  # only a request to close takes a whole log, before the replica is hosted
                gone = missing & held - partition.cut.get(broker_id, set())
                partition.deleted.setdefault(broker_id, set()).update(gone)
        if is_seen_first:  # a replica that is open and not named is still that of an earlier topic of the name
            mirror.is_open = hosted.is_open and leader_of(ensemble.tree, key) != broker_id
        mirror.is_hosted = True
        if log.truncations != mirror.truncations:
            mirror.truncations = log.truncations
            held = partition.held.get(broker_id, set())
            gone = {one for one in held if one.base < mirror.end and not holds(log, one)}
            partition.cut.setdefault(broker_id, set()).update(gone)
            if ensemble.generation in CONTROLLED:
                partition.evidence.cut(cluster, ensemble, broker_id, hosted, gone)
        if log.end_offset != mirror.end:
            came = {one for one in partition.acknowledged if one.last >= mirror.end and holds(log, one)}
            partition.held.setdefault(broker_id, set()).update(came)
            partition.deleted.get(broker_id, set()).difference_update(came)
            mirror.end = log.end_offset
        if ensemble.generation in CONTROLLED:
            self._with_controller(cluster, ensemble, partition, broker_id, hosted, mirror)
            return
        is_named = leader_of(ensemble.tree, key) == broker_id
        owner = ensemble.tree.owner(paths.leader(key)) if is_named else NO_SESSION
        # A leader may win again while it is open: then the tree names it by another session.
        wins_again = mirror.is_open and owner not in (NO_SESSION, mirror.owner)
        opens = hosted.is_open and (not mirror.is_open or wins_again)
        is_new = hosted.is_open and not mirror.is_open
        mirror.is_open, mirror.owner = hosted.is_open, owner or mirror.owner
        if is_new and is_named and ensemble.generation == V2:  # else it is deposed already, or the topic was deleted
            self._begins_epoch(ensemble, partition, broker_id, key, hosted.epoch)
        if opens:
            self._opens(ensemble, partition, broker_id, key, log)

    def _with_controller(
        self,
        cluster: SimulatedCluster,
        ensemble: SimulatedEnsemble,
        partition: _Partition,
        broker_id: int,
        hosted: Hosted,
        mirror: _Mirror,
    ) -> None:
        """P-1 for the leader of the tree's epoch, P-8 for any: nobody else has led in it."""
        partition.evidence.look(cluster, ensemble.generation, broker_id, hosted, partition.acknowledged)
        epoch = hosted.replica.leader_epoch
        opens = hosted.is_open and (not mirror.is_open or epoch != mirror.epoch)
        mirror.is_open, mirror.epoch = hosted.is_open, epoch
        if not opens:
            return
        other = partition.evidence.leaders.setdefault(epoch, broker_id)
        if other != broker_id:
            raise Violation("P-8", f"{hosted}: brokers {other} and {broker_id} lead in epoch {epoch}")
        state = state_of(ensemble.tree, hosted.key)
        if state is not None and (state.leader, state.leader_epoch) == (broker_id, epoch):
            self._opens(ensemble, partition, broker_id, hosted.key, hosted.replica.log)

    def _begins_epoch(
        self, ensemble: SimulatedEnsemble, partition: _Partition, broker_id: int, key: Key, epoch: int
    ) -> None:
        """P-24: epochs grow; a leader whose znode was overwritten by an earlier one may find its epoch there (Z-02)."""
        if epoch <= partition.epoch:
            what = f"{key[0]}-{key[1]}: broker {broker_id} leads in epoch {epoch}, after one led in {partition.epoch}"
            cause = TWO_LEADERS if key in ensemble.overwritten else ""
            raise Violation("P-24", with_excuse(what, ensemble.generation, cause))
        partition.epoch = epoch

    def _opens(self, ensemble: SimulatedEnsemble, partition: _Partition, broker_id: int, key: Key, log: Log) -> None:
        """P-1: a leader that opens holds all that was acknowledged."""
        for one in partition.acknowledged:
            if not holds(log, one):
                what = (
                    f"{key[0]}-{key[1]}: broker {broker_id} leads with log end {log.end_offset} and without"
                    f" {one.base}…{one.last}, which broker {one.by} has acknowledged"
                    f" (the tree named {one.named}, in sync {list(one.insync)})"
                )
                cause = _cause(ensemble, partition, broker_id, key, one, log)
                raise Violation("P-1", with_excuse(what, ensemble.generation, cause))

    # --- acknowledgements --------------------------------------------------------------------------------------------

    def _answered(
        self,
        cluster: SimulatedCluster,
        ensemble: SimulatedEnsemble,
        node: ZooKeeperNode,
        broker_id: int,
        request_id: int,
        response: ProduceResponse,
    ) -> None:
        if not self._produces.pop((broker_id, request_id), False):
            return
        for answer in response.partitions:
            key = (answer.topic, answer.partition)
            if answer.error_code != ErrorCode.NONE or key not in self._partitions:
                continue
            header = node.state.hosted[key].replica.log.batch_at(answer.base_offset)
            assert header is not None
            named = leader_of(ensemble.tree, key)
            insync = isr_of(ensemble.tree, key)
            replica = node.state.hosted[key].replica
            behind = tuple(
                member
                for member, state in states(cluster)
                if key in state.hosted and state.hosted[key].replica.leader_epoch != replica.leader_epoch
            )
            place = header.base_offset, header.last_offset, header.crc
            one = Acknowledged(*place, broker_id, named, insync, replica.isr, behind)
            partition = self._partitions[key]
            partition.acknowledged.append(one)
            for member, state in states(cluster):
                if key in state.hosted and holds(state.hosted[key].replica.log, one):
                    partition.held.setdefault(member, set()).add(one)
            other = open_leader(cluster, ensemble.tree, key)
            if ensemble.generation in CONTROLLED:
                if named not in (None, broker_id) and other is not None and not holds(other.replica.log, one):
                    what = (
                        f"{key[0]}-{key[1]}: broker {broker_id} acknowledges {one.base}, which the leader {named} lacks"
                    )
                    cause = _cause(ensemble, partition, named or 0, key, one, other.replica.log)
                    raise Violation("P-8", with_excuse(what, ensemble.generation, cause))
            elif named != broker_id and other is not None:
                what = f"{key[0]}-{key[1]}: brokers {broker_id} and {named} lead; the former acknowledges {one.base}"
                raise Violation("P-8", with_excuse(what, ensemble.generation, TWO_LEADERS))


def _cause(
    ensemble: SimulatedEnsemble, partition: _Partition, broker_id: int, key: Key, one: Acknowledged, log: Log
) -> str:
    """The flaw by which a leader, with this log, lacks an acknowledged batch; "" if no documented one explains it."""
    if ensemble.generation in CONTROLLED:
        held = one in partition.held.get(broker_id, ())
        if held and one in partition.lost.get(broker_id, ()):
            return UNSYNCED
        if one in partition.deleted.get(broker_id, ()):
            return DELETED_LATE
        return partition.evidence.cause(broker_id, one, held=held)
    if one.named != one.by:
        return TWO_LEADERS
    if ensemble.generation == V1 and leader_of(ensemble.tree, key) != broker_id:
        return TWO_LEADERS  # its session has ended while it became leader, and it goes on
    own = _gone(partition, broker_id, one)
    if own:
        return own
    if one not in partition.held.get(broker_id, ()):
        if broker_id in one.insync:
            return NEVER_HELD
        if key in ensemble.overwritten:
            return TWO_LEADERS
        if key in ensemble.won_outside:
            return LATE_RACE
        if log.end_offset > one.last:
            return DIFFERS
        causes = [_gone(partition, member, one) for member in one.insync]
        if causes and all(causes):  # it followed one of them that was elected, and has not opened the partition
            return causes[0]
    return ""


def _gone(partition: _Partition, broker_id: int, one: Acknowledged) -> str:
    """The flaw by which a replica does not hold any more what it held; "" if it is known of none."""
    if one in partition.cut.get(broker_id, ()):
        return CUT_TO_HIGH_WATERMARK
    if one in partition.lost.get(broker_id, ()):
        return NOT_SYNCED
    return DELETED if one in partition.deleted.get(broker_id, ()) else ""
