"""Several log directories, and the failure of one (KIP-112, KIP-858).

A directory that fails goes offline alone: its replicas are gone for as long as this process lives, their partitions are
answered with KAFKA_STORAGE_ERROR, and the controller is told, which takes the broker out of their leaderships, ISRs and
ELRs. Whoever catches a `StorageError` for one replica hands it to `fail`; the last directory that fails takes the
broker with it, as does an error that nobody catches.

After a restart a replica is where it is found. If a directory cannot be read at the start, an assigned replica that is
nowhere may be in it: it stays offline, unless the partition is new to this broker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from broker.core.broker_node.state import CONTROL, BrokerState
from broker.core.messages import LOST_DIRECTORY, AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import PartitionState
from broker.core.ports.files import StorageError, directory_of
from broker.core.ports.marks import sometimes
from broker.core.replica.state import Replica, Role

FAILED = sometimes("storage: one of several log directories failed, its replicas are offline (KIP-112)")
REPORT_REPEATED = sometimes("storage: the controller is told again of replicas that are offline (KIP-858)")

REPORT = "offline-replicas"


def online(broker: BrokerState) -> list[int]:
    """The places in `log.dirs` of the directories that have not failed."""
    return [place for place in range(len(broker.settings.log_dirs)) if place not in broker.failed_directories]


def of(replica: Replica) -> int:
    """The place in `log.dirs` of the directory that a replica is in."""
    return directory_of(replica.log.directory)


def choose(broker: BrokerState) -> int:
    """Where to put a new replica: the directory with the fewest, the first among equals."""
    candidates = online(broker)
    if len(candidates) == 1:
        return candidates[0]
    counts = Counter(of(replica) for replica in broker.replicas.values())
    return min(candidates, key=lambda place: counts[place])


def fail(broker: BrokerState, error: StorageError) -> None:
    """TR-6: take the directory of what the disk refused offline; raise the error again if it is the last one."""
    place = directory_of(error.name)
    if place in broker.failed_directories:
        return
    if len(online(broker)) == 1 or broker.rules.storage.goes_on_after_error():
        raise error
    broker.failed_directories[place] = str(error)
    lost = [replica for replica in broker.replicas.values() if of(replica) == place]
    for replica in lost:
        del broker.replicas[replica.key]
        broker.touched.pop(replica.key, None)
        broker.offline[replica.key] = replica.topic_id
        replica.role = Role.NONE
    broker.lost += lost
    broker.runtime.mark(FAILED)
    broker.runtime.note(
        "error",
        f"log directory {broker.settings.log_dirs[place]} failed: {error}; "
        f"{len(lost)} replicas are offline: repair it and restart",
    )


@contextmanager
def guarded(broker: BrokerState) -> Iterator[None]:
    """Do something with one directory; if the disk refuses, that directory is offline afterwards, and no more."""
    try:
        yield
    except StorageError as error:
        fail(broker, error)


def may_hold(broker: BrokerState, state: PartitionState) -> bool:
    """Whether a replica that is nowhere to be found may lie in a directory that could not be read at the start.

    It cannot if the partition has had no change since its creation, for the unclean registration would have been one,
    or if it is only being added here.
    """
    return broker.has_unread_directories and state.partition_epoch > 0 and broker.broker_id not in state.adding


def report(broker: BrokerState) -> None:
    """KIP-858: tell the controller of replicas that are offline and of which its metadata does not say so yet."""
    if broker.is_reporting or broker.broker_epoch < 0:
        return
    unknown = []
    for (topic, partition), topic_id in broker.offline.items():
        state = broker.image.partition(topic, partition)
        if state is not None and broker.broker_id in state.replicas and broker.broker_id not in state.offline:
            unknown.append((LOST_DIRECTORY, topic_id, partition))
    if unknown:
        broker.is_reporting = True
        broker.runtime.send(
            broker.controller_id,
            AssignReplicasToDirsRequest(broker.broker_id, broker.broker_epoch, tuple(unknown)),
            channel=CONTROL,
            timeout_ms=broker.settings.request_timeout_ms,
            purpose=REPORT,
        )


def reported(broker: BrokerState, response: AssignReplicasToDirsResponse | None) -> None:
    """The controller has taken note, which its metadata will show, or must be told again."""
    if response is not None and response.error_code == ErrorCode.NONE:
        broker.is_reporting = False
    else:
        broker.runtime.set_timer((REPORT,), broker.settings.metadata_retry_backoff_ms)


def report_again(broker: BrokerState) -> None:
    """The timer of `reported`."""
    broker.runtime.mark(REPORT_REPEATED)
    broker.is_reporting = False
    report(broker)


def describe(broker: BrokerState) -> list[dict[str, object]]:
    """The white box: each directory, and why it failed, if it did."""
    return [
        {"path": path, "failure": broker.failed_directories.get(place)}
        for place, path in enumerate(broker.settings.log_dirs)
    ]
