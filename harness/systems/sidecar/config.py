"""The config of a sidecar: a JSON file in the node's directory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

Ready = Literal["kafka", "port", "command"]


@dataclass(frozen=True)
class SidecarConfig:
    """How to run the broker of one node, and where to query it."""

    node_id: int
    role: Literal["broker", "controller"]
    once: Sequence[Sequence[str]]  # commands to run before the first start; what they write is synced
    prepare: Sequence[Sequence[str]]  # commands to run before each start; each must be repeatable
    command: Sequence[str]
    environment: Mapping[str, str]  # on top of the harness's own
    directory: str
    data: str
    socket: str
    address: tuple[str, int]  # of the listener that is queried
    nodes: Mapping[str, int]  # "host:port" as advertised to clients → node id
    ready: Ready
    ready_command: Sequence[str]
    topics: Sequence[str] | None = None  # that are asked about; None: all
    group_partitions: Sequence[int] = ()  # of `__consumer_offsets`: those that store the run's groups
    version: str = ""  # of the system, as the harness calls it
    quorum_address: tuple[str, int] | None = None  # of the controller in a broker's process; None: there is none

    @property
    def prepared_once(self) -> Path:
        """The file that says that `once` was run: with the data, since who loses these has to be prepared again."""
        return Path(self.data) / "harrow-prepared"

    def dumps(self) -> str:
        """Format as JSON."""
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def load(cls, path: Path) -> SidecarConfig:
        """Read a file written by `dumps`."""
        raw = json.loads(path.read_text())
        host, port = raw.pop("address")
        if (quorum := raw.pop("quorum_address", None)) is not None:
            raw["quorum_address"] = tuple(quorum)
        return cls(address=(host, port), **raw)
