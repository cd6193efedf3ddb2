"""Handles several log directories and the failure of single ones (KIP-112, KIP-858).

A failed directory goes offline alone: its replicas are unavailable until the process restarts, requests for them are
answered with KAFKA_STORAGE_ERROR, and the broker reports them to the controller, which removes it from their
leaderships, ISRs and ELRs. Code that catches a `StorageError` of one replica passes it to `fail`; if the last
directory fails, or nothing catches the error, the broker stops.

After a restart a replica belongs to the directory it is found in; if two have a log of it, to the one that was claimed
last, and the other log is deleted: its partition was given up and came back while its directory had failed. If a
directory is unreadable at startup, an assigned replica that is not found may be in it and stays offline, unless the
partition is new to this broker.
"""

from __future__ import annotations

from collections import Counter
from types import TracebackType

from broker.core.broker_node.state import CONTROL, BrokerState
from broker.core.log.checkpoints import Claim
from broker.core.messages import LOST_DIRECTORY, AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import METADATA_DIRECTORY, PartitionState
from broker.core.ports.files import StorageError, directory_of
from broker.core.ports.marks import sometimes
from broker.core.replica.state import Replica, Role

FAILED = sometimes("storage: one of several log directories failed, its replicas are offline (KIP-112)")
REPORT_REPEATED = sometimes("storage: replicas that are offline are reported to the controller again (KIP-858)")

REPORT = "offline-replicas"


def online(broker: BrokerState) -> list[int]:
    """Indexes in `log.dirs` of the directories that have not failed."""
    return [index for index in range(len(broker.settings.log_dirs)) if index not in broker.failed_directories]


def of(replica: Replica) -> int:
    """Index in `log.dirs` of the directory that holds a replica."""
    return directory_of(replica.log.directory)


def choose(broker: BrokerState) -> int:
    """Choose the directory for a new replica: the one with the fewest replicas, the first on a tie."""
    candidates = online(broker)
    if len(candidates) == 1:
        return candidates[0]
    counts = Counter(of(replica) for replica in broker.replicas.values())
    return min(candidates, key=lambda index: counts[index])


def claim(broker: BrokerState) -> Claim | None:
    """The claim of a replica that is created now; None with a single directory, where no log can have another."""
    if len(broker.settings.log_dirs) == 1:
        return None
    return Claim(broker.broker_epoch, len(broker.failed_directories))


def claim_again(broker: BrokerState) -> list[Replica]:
    """RT-8: after a start without some directories claim the replicas that were found, so that they count for more
    than logs that may be there.

    Returns those whose claim is to be made durable: all, before the first roles are taken; later none.
    """
    if not broker.has_unread_directories or broker.published:
        return []
    found = list(broker.replicas.values())
    for replica in found:
        replica.claim = claim(broker)
    return found


def fail(broker: BrokerState, error: StorageError) -> None:
    """TR-6: take the failed file's directory offline; raise the error again if no directory is left."""
    index = directory_of(error.name)
    if index in broker.failed_directories:
        return
    if len(online(broker)) == 1 or broker.rules.storage.goes_on_after_error():
        raise error
    broker.failed_directories[index] = str(error)
    if index == directory_of(METADATA_DIRECTORY):
        broker.metadata.stored = None  # in memory from now on
    lost = [replica for replica in broker.replicas.values() if of(replica) == index]
    for replica in lost:
        del broker.replicas[replica.key]
        broker.touched.pop(replica.key, None)
        broker.offline[replica.key] = replica.topic_id
        replica.role = Role.NONE
    broker.lost += lost
    broker.runtime.mark(FAILED)
    broker.runtime.log(
        "error",
        f"log directory {broker.settings.log_dirs[index]} failed: {error}; "
        f"{len(lost)} replicas are offline: repair it and restart",
    )


class guarded:  # noqa: N801 (it is used like a function; a generator would take three times as long)
    """Run an action on one directory; if the disk fails, take only that directory offline."""

    def __init__(self, broker: BrokerState) -> None:
        self._broker = broker

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, StorageError):
            return False
        fail(self._broker, error)
        return True


def may_hold(broker: BrokerState, state: PartitionState) -> bool:
    """Whether a replica that was not found may lie in a directory that was unreadable at startup.

    It cannot if the partition has not changed since its creation, as the unclean registration would have changed it,
    or if it is only being added here.
    """
    return broker.has_unread_directories and state.partition_epoch > 0 and broker.broker_id not in state.adding


def report(broker: BrokerState) -> None:
    """KIP-858: report to the controller the offline replicas that its metadata does not show yet."""
    if broker.reporting or broker.broker_epoch < 0:
        return
    unknown = []
    for (topic, partition), topic_id in broker.offline.items():
        state = broker.image.partition(topic, partition)
        if state is not None and broker.broker_id in state.replicas and broker.broker_id not in state.offline:
            unknown.append((LOST_DIRECTORY, topic_id, partition))
    unknown = [one for one in unknown if one not in broker.reported]
    if unknown:
        broker.reporting = tuple(unknown)
        broker.runtime.send(
            broker.controller_id,
            AssignReplicasToDirsRequest(broker.broker_id, broker.broker_epoch, broker.reporting),
            channel=CONTROL,
            timeout_ms=broker.settings.request_timeout_ms,
            purpose=REPORT,
        )


def reported(broker: BrokerState, response: AssignReplicasToDirsResponse | None) -> None:
    """Handle the controller's answer: it has recorded the replicas, or the report is repeated.

    What is unknown to it by metadata that came meanwhile is reported then.
    """
    if response is not None and response.error_code == ErrorCode.NONE:
        broker.reported += broker.reporting
        broker.reporting = ()
        report(broker)
    else:
        broker.runtime.set_timer((REPORT,), broker.settings.metadata_retry_backoff_ms)


def report_again(broker: BrokerState) -> None:
    """The retry timer of `reported`."""
    broker.runtime.mark(REPORT_REPEATED)
    broker.reporting = ()
    report(broker)


def describe(broker: BrokerState) -> list[dict[str, object]]:
    """State for the admin endpoint: each directory, and why it failed, if it did."""
    return [
        {"path": path, "failure": broker.failed_directories.get(index)}
        for index, path in enumerate(broker.settings.log_dirs)
    ]
