"""What brokers ask controllers for by themselves: topics that clients name, failed directories, to stop (BL-7)."""

from __future__ import annotations

from broker.core.broker_node import directories, publishing, replication
from broker.core.messages import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse, MetadataRequest
from broker.core.messages.errors import ErrorCode
from broker.core.ports.events import Exit, Send, SetTimer, StopRequested
from broker.core.ports.files import StorageError, directory_of
from broker.core.replica.state import Role
from tests.support.cluster import CONTROLLER, TOPIC, Cluster

SHUTDOWN_MS = 1_000


def test_a_topic_that_a_client_names_is_created_if_the_client_allows_it() -> None:
    cluster = Cluster()
    cluster.create_topic()
    cluster.call(1, MetadataRequest((("kept-out", ""),)))
    cluster.call(1, MetadataRequest(((TOPIC, ""), ("wanted", "")), allow_auto_topic_creation=True))
    image = cluster.machines[CONTROLLER].node.state.image
    cluster.run_until(lambda: "wanted" in image.topics)
    assert set(image.topics) == {TOPIC, "wanted"}


def test_a_broker_that_is_asked_twice_to_stop_keeps_its_first_deadline() -> None:
    """BL-7."""
    cluster = Cluster(controlled_shutdown_timeout_ms=SHUTDOWN_MS)
    cluster.create_topic()
    cluster.isolate(1)
    cluster.stop(1)
    began_ms = cluster.now_ms
    cluster.run(SHUTDOWN_MS - 200)
    cluster.stop(1)
    cluster.run_until(lambda: cluster.machines[1].node is None)
    assert cluster.now_ms - began_ms <= SHUTDOWN_MS + 1


def test_a_broker_that_is_not_registered_stops_at_once_and_asks_nobody() -> None:
    """BL-7."""
    node = Cluster().machines[1].node
    effects = node.handle(0, StopRequested())
    assert [effect.status for effect in effects if isinstance(effect, Exit)] == [0]
    assert not [effect for effect in effects if isinstance(effect, Send)]


def in_two_directories() -> Cluster:
    cluster = Cluster(log_dirs=("/a", "/b"))
    cluster.create_topic(4)
    cluster.run_until(lambda: len(cluster.machines[1].node.state.replicas) == 4)
    return cluster


def test_one_report_of_a_failed_directory_is_under_way_at_a_time() -> None:
    """KIP-858."""
    cluster = in_two_directories()
    state = cluster.machines[1].node.state
    sent: list[AssignReplicasToDirsRequest] = []
    cluster.held = lambda _, __, message: isinstance(message, AssignReplicasToDirsRequest) and not sent.append(message)
    lost = next(key for key, replica in state.replicas.items() if directories.of(replica) == 1)
    cluster.machines[1].files.fail = lambda _, name: directory_of(name if "/" in name else f"{name}/") == 1
    cluster.send(cluster.leader(lost[1]), 5, partition=lost[1])
    cluster.run_until(lambda: bool(sent))
    directories.report(state)
    assert state.reporting
    assert not [effect for effect in state.runtime.take_effects() if "AssignReplicas" in repr(effect)]


def test_what_metadata_that_came_during_a_report_do_not_show_is_reported_after_it() -> None:
    """KIP-858: at once, and not with the next metadata, which may be far."""
    state = in_two_directories().machines[1].node.state
    first, second, *_ = state.replicas
    state.offline[first] = state.replicas[first].topic_id

    def reported() -> list[int]:
        sent = [effect.request for effect in state.runtime.take_effects() if isinstance(effect, Send)]
        return [
            number for one in sent if isinstance(one, AssignReplicasToDirsRequest) for _, _, number in one.assignments
        ]

    directories.report(state)
    assert reported() == [first[1]]
    state.offline[second] = state.replicas[second].topic_id
    directories.report(state)
    assert not reported()
    directories.reported(state, AssignReplicasToDirsResponse(ErrorCode.NONE))
    assert reported() == [second[1]]  # the first is recorded, and will be in the metadata
    directories.reported(state, AssignReplicasToDirsResponse(ErrorCode.NONE))
    assert not reported()
    publishing.publish(state)
    assert sorted(reported()) == sorted({first[1], second[1]})


def test_a_replica_of_a_failed_directory_has_no_role_any_more() -> None:
    """TR-6."""
    state = in_two_directories().machines[1].node.state
    lost = [replica for replica in state.replicas.values() if directories.of(replica) == 1]
    directories.fail(state, StorageError("refused", lost[0].log.directory + "/x"))
    assert [replica.role for replica in lost] == [Role.NONE] * len(lost)
    assert not {replica.key for replica in lost} & state.replicas.keys()


def test_a_follower_fetches_again_when_the_first_of_its_partitions_has_paused_for_long_enough() -> None:
    """TR-7."""
    cluster = Cluster(2)
    cluster.create_topic(4, 2)
    state = cluster.machines[1].node.state
    cluster.run_until(lambda: sum(one.role is Role.FOLLOWER for one in state.replicas.values()) > 1)
    followed = [one for one in state.replicas.values() if one.role is Role.FOLLOWER and one.leader == 2]
    for number, replica in enumerate(followed):
        replica.retry_fetch_at_ms = state.runtime.now_ms + 10 * (len(followed) - number)
    state.fetching_from.clear()
    state.runtime.take_effects()
    replication.fetch_from(state, 2)
    timers = [effect for effect in state.runtime.take_effects() if isinstance(effect, SetTimer)]
    assert timers == [SetTimer((replication.RETRY, 2), state.runtime.now_ms + 10)]
    assert len(followed) > 1
