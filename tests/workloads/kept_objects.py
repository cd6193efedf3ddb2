"""Rows of the table `commands` as the operations that the kernels decide."""

import json

from checkers.linearizability.operations import UNKNOWN, Operation


def operations(rows):
    return [
        Operation(
            row["process"],
            row["invoked_ns"],
            row["completed_ns"],
            row["function"],
            None if row["argument"] is None else json.loads(row["argument"]),
            UNKNOWN if row["result"] is None else json.loads(row["result"]),
            row["status"],
            row["key"],
        )
        for row in rows
    ]
