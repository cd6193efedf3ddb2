"""Records that nobody should ever have been handed."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from checkers.findings import findings, operation
from checkers.relations import Relations


def phantom_read(relations: Relations) -> DataFrame:
    """Find polled values that nobody sent to the partition.

    ::

        poll: … 45: 999 …              no send of 999 anywhere

    In a history that lacks sends (a worker died, a part is unreadable) nothing follows from a missing send.
    """
    known = relations.runs.where("sends_known").select("run_id")
    phantoms = relations.values.where("reads > 0 and sent = 0").join(fn.broadcast(known), "run_id", "left_semi")
    return _read(phantoms, "phantom-read")


def aborted_read(relations: Relations) -> DataFrame:
    """Find polled values whose send certainly failed.

    ::

        send 123 ──fail──              poll: … 45: 123 …

    A send of unknown outcome (`info`) may well be read.
    """
    return _read(relations.values.where("reads > 0 and send_status = 'fail'"), "aborted-read")


def _read(values: DataFrame, anomaly: str) -> DataFrame:
    return findings(
        values,
        anomaly,
        offset=fn.col("read_offset"),
        op=fn.col("read_op"),
        process=fn.col("read_process"),
        at_ns=fn.col("read_first_ns"),
        details={
            "operation": fn.when(fn.col("sent") > 0, operation("send_")),
            "read_op": fn.col("read_op"),
            "read_process": fn.col("read_process"),
            "reads": fn.col("reads"),
        },
    )
