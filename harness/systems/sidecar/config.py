"""What an attendant is told: a JSON file in the node's directory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

Ready = Literal["kafka", "port", "command"]


@dataclass(frozen=True)
class SidecarConfig:
    """One node: how its broker is run, and where it is asked."""

    node_id: int
    role: Literal["broker", "controller"]
    prepare: Sequence[Sequence[str]]  # commands before each start, each of which may be repeated
    command: Sequence[str]
    environment: Mapping[str, str]  # on top of the harness's own
    directory: str
    data: str
    socket: str
    address: tuple[str, int]  # of the listener that is asked
    nodes: Mapping[str, int]  # "host:port" as brokers tell it to clients → node id
    ready: Ready
    ready_command: Sequence[str]

    def dumps(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def load(cls, path: Path) -> SidecarConfig:
        """Read what `dumps` wrote."""
        raw = json.loads(path.read_text())
        host, port = raw.pop("address")
        return cls(address=(host, port), **raw)
