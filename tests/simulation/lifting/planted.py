"""A run of a real cluster as it is stored, planted: a leader that was cut off acknowledged alone, and was replaced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.incidents.stored import fault, follows, leads, lost, run_in, settings

SPEC = {"partitions": 2, "flush": "never", "workload": "log", "combined": False}
FLAW = "ack-before-replication"


def isolated(number: int, broker: int, started_s: float, ended_s: float, **changed: Any) -> dict[str, Any]:
    parameters = json.dumps({"from": "nodes", "role": "the leader of harrow-0", "duration_ms": 5000})
    return fault(number, "isolate", [broker], started_s, ended_s, parameters=parameters, **changed)


def lossy_run(directory: Path, *flaws: str, faults: list[dict[str, Any]] | None = None, **changed: Any) -> Path:
    """Write the run of a cluster with these flaws that lost what broker 1 acknowledged alone."""
    runs = [
        settings(
            system="harrow", generation="K5", flaws=list(flaws), controllers=1, replication_factor=3, idempotence=True,
            spec=json.dumps(SPEC),
        )
        | changed
    ]  # fmt: skip
    cluster = [
        leads(9, 1, 0, 20, (1, 2, 3)),
        follows(11, 2, 1, 0, 20),
        leads(12, 1, 0, 30, (1, 2, 3)),
        follows(13, 2, 1, 0, 20),
        leads(15, 2, 1, 20, (2, 3)),
    ]
    struck = [isolated(1, 1, 10.5, 17)] if faults is None else faults
    rows = [lost(offset, 12.1) for offset in range(20, 25)]
    directory.mkdir(parents=True, exist_ok=True)
    run_in(directory, runs=runs, cluster=cluster, faults=struck, anomalies=rows)
    (directory / "results.json").write_text(json.dumps({"verdict": "invalid"}))
    return directory
