"""Removes from a run's directory what its nodes stored and nobody will look at: `harrow run --keep nodes=…`.

What a node has stored (`nodes/<id>/data`) is evidence only where something failed. Its settings and logs stay.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Literal, get_args

from common.names import SpecError, unknown

Keep = Literal["failing", "all", "none"]

_PARTITION: Final = re.compile(r"(?P<topic>.+)-\d+")
_NODES: Final = "nodes"


def read_keep(text: str) -> Keep:
    """Parse the value of `--keep`. Raises `SpecError`."""
    what, equals, how = text.partition("=")
    if what != _NODES or not equals:
        raise SpecError(f"keep: expected {_NODES}={'|'.join(get_args(Keep))}, found {text!r}")
    for each in get_args(Keep):
        if how == each:
            known: Keep = each
            return known
    raise SpecError(f"keep: {unknown(how, get_args(Keep))}")


def prune(run: Path, keep: Keep, verdict: str | None, violations: Iterable[Mapping[str, object]]) -> None:
    """Remove what is not to be kept. `violations`: rows of anomalies that break a promise; no verdict: not checked.

    `failing` keeps the partitions that have violations, and the metadata. All is kept where a violation names no
    partition, such as a lost node, and where the run was not decided.
    """
    if keep == "all":
        return
    if keep == "none" or verdict == "valid":
        for data in _data(run):
            shutil.rmtree(data)
        return
    failing = {(row.get("topic"), row.get("partition")) for row in violations}
    if verdict != "invalid" or not failing or any(None in where for where in failing):
        return
    kept = {f"{topic}-{partition}" for topic, partition in failing}
    for data in _data(run):
        for directory in list(data.rglob("*")):
            found = _PARTITION.fullmatch(directory.name)
            if found and found["topic"] != "__cluster_metadata" and directory.name not in kept and directory.is_dir():
                shutil.rmtree(directory, ignore_errors=True)


def _data(run: Path) -> list[Path]:
    return [path for path in sorted(run.glob(f"{_NODES}/*/data")) if path.is_dir() and not path.is_symlink()]
