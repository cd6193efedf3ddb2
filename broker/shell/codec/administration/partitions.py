"""Codec of changes of partitions.

CreatePartitions (37), versions 0 to 3, DeleteRecords (21), 0 to 2, AlterPartitionReassignments (45), 0 to 1, and
ListPartitionReassignments (46), 0.
"""

from __future__ import annotations

from kafka.protocol.admin import AlterPartitionReassignmentsRequest as WireAlterRequest
from kafka.protocol.admin import AlterPartitionReassignmentsResponse as WireAlterResponse
from kafka.protocol.admin import CreatePartitionsRequest as WireCreateRequest
from kafka.protocol.admin import CreatePartitionsResponse as WireCreateResponse
from kafka.protocol.admin import DeleteRecordsRequest as WireDeleteRequest
from kafka.protocol.admin import DeleteRecordsResponse as WireDeleteResponse
from kafka.protocol.admin import ListPartitionReassignmentsRequest as WireListRequest
from kafka.protocol.admin import ListPartitionReassignmentsResponse as WireListResponse

from broker.core.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    DeletedRecords,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    NamedResult,
    NewPartitions,
    OngoingReassignment,
    Reassignment,
    ReassignmentResult,
)
from broker.shell.codec.mapping import ARRAY, by_topic, many, mapped, message, nullable, only, record, row

# --- CreatePartitions -------------------------------------------------------------------------------------

_NEW = record(NewPartitions, topic="name", total_count="count", assignments=nullable(many(only("broker_ids", ARRAY))))

CREATE_PARTITIONS = mapped(
    (0, 3),
    message(WireCreateRequest, record(CreatePartitionsRequest, topics=many(_NEW))),
    message(WireCreateResponse, record(CreatePartitionsResponse, results=many(record(NamedResult)))),
)

# --- AlterPartitionReassignments --------------------------------------------------------------------------

_WANTED = record(Reassignment, partition="partition_index", replicas=nullable(ARRAY))
_RESULT = record(ReassignmentResult, partition="partition_index")

ALTER_PARTITION_REASSIGNMENTS = mapped(
    (0, 1),
    message(WireAlterRequest, record(AlterPartitionReassignmentsRequest, reassignments=("topics", by_topic(_WANTED)))),
    message(
        WireAlterResponse,
        record(AlterPartitionReassignmentsResponse, results=("responses", by_topic(_RESULT))),
        error_message=None,
    ),
)

# --- ListPartitionReassignments ---------------------------------------------------------------------------

_ASKED = nullable(by_topic(row("topic", "partition"), "partition_indexes"))
_ONGOING = record(
    OngoingReassignment,
    partition="partition_index",
    replicas=ARRAY,
    adding=("adding_replicas", ARRAY),
    removing=("removing_replicas", ARRAY),
)

LIST_PARTITION_REASSIGNMENTS = mapped(
    (0, 0),
    message(WireListRequest, record(ListPartitionReassignmentsRequest, partitions=("topics", _ASKED))),
    message(
        WireListResponse,
        record(ListPartitionReassignmentsResponse, reassignments=("topics", by_topic(_ONGOING))),
        error_message=None,
    ),
)


_DELETE = record(DeleteRecordsPartition, partition="partition_index")
_DELETED = record(DeletedRecords, partition="partition_index")

DELETE_RECORDS = mapped(
    (0, 2),
    message(WireDeleteRequest, record(DeleteRecordsRequest, partitions=("topics", by_topic(_DELETE)))),
    message(WireDeleteResponse, record(DeleteRecordsResponse, partitions=("topics", by_topic(_DELETED)))),
)
