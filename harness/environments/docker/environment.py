"""The environment `docker`: nodes are containers.

Every node is two containers. One does nothing but hold the network namespace, so that the node keeps its interfaces,
cuts and shapes over a restart; the other is the node, and shares it. The engine creates no network for them: the
supervisor connects their namespaces to its switch, as it does for processes. Clients are processes in a namespace of
the supervisor. Disks are mounted where the engine sees them, and a node's files have the same path as in the
harness.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from harness.environments.base import EnvironmentFailed, NodePlan, System
from harness.environments.docker import engine, image
from harness.environments.docker.capabilities import choose, offered
from harness.environments.docker.engine import container_name, hold_namespace
from harness.environments.docker.host import ContainerHost, Housing, Limits
from harness.environments.docker.image import ROOT
from harness.environments.docker.python_tree import PACKAGES_AT, PYTHON
from harness.environments.machine.environment import MachineEnvironment
from harness.environments.machine.kernel.process_identity import RUN_MARK
from harness.environments.network.network import Namespaces
from harness.store.journal import Journal
from nemesis.capabilities.cluster import Capability, Endpoint

if TYPE_CHECKING:
    from docker import DockerClient


class Contents(Protocol):
    """A system that has images of its own. Its `command` runs in the node's."""

    @property
    def images(self) -> Sequence[str]:
        """The names of all images, which the engine has: one for each version."""
        ...

    def image_of(self, plan: NodePlan) -> str:
        """The name of the image of the version that the node runs from its next start on."""
        ...

    def environment(self, plan: NodePlan) -> Mapping[str, str]:
        """Environment variables of the node's container, besides those of the image."""
        ...

    def sidecar(self, plan: NodePlan, pid: int) -> Sequence[str]:
        """The command of the sidecar, which runs on this machine and serves the node's socket while the node runs."""
        ...


NORMAL = Limits(memory_mib=512, cpus=0.0)


Programs = Literal["image", "machine"]
"""Where the nodes' programs come from."""

_OURS = Path(__file__).parents[3]
_NOT_SEEN = frozenset({"boot", "dev", "lost+found", "proc", "run", "sys", "tmp"})


class DockerEnvironment(MachineEnvironment):
    """Needs root: see `capabilities`. Nothing is started before `set_up`."""

    _MOUNTS_ARE_PRIVATE = False  # the engine must see them

    def __init__(
        self,
        run_directory: Path,
        system: System,
        brokers: int,
        controllers: int = 1,
        network: str = "auto",
        page_cache: str = "auto",
        *,
        image_name: str = "",
        limits: Limits = NORMAL,
        sources: Sequence[Path] = (),
        programs: Programs = "image",
        contents: Contents | None = None,
        needs: frozenset[Capability] = frozenset(),
        journal: Journal,
        combined: bool = False,
    ) -> None:
        """Select the mechanisms; `EnvironmentFailed` when this machine lacks one that the user asked for.

        `image_name` is an image that contains the system; empty: an image of Harrow's own broker, built from this
        machine's Python. `sources` are directories with Python packages for the nodes, besides those of the image.
        `programs` are those of the image, or those of this machine, mounted read-only. `contents` is the system again,
        if it has an image of its own, which contains nothing of ours.
        """
        chosen = choose(network, page_cache, needs)
        super().__init__(
            run_directory, system, brokers, controllers, chosen, needs=needs, journal=journal, combined=combined
        )
        self._image_name = image_name
        self._contents = contents
        self._limits = limits
        self._sources = tuple(path.absolute() for path in sources)
        self._programs: Programs = "image" if contents is not None else programs
        self._client: DockerClient | None = None
        self._holders: dict[Endpoint, str] = {}

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities that faults can use."""
        return offered(self._chosen)

    @property
    def mechanisms(self) -> Mapping[str, str]:
        """Descriptions of the mechanisms, for the report."""
        cpus = f"{self._limits.cpus:g} processors" if self._limits.cpus else "all processors"
        return {
            "process": f"signals to a container's process; {self._limits.memory_mib} MiB of memory, {cpus}; "
            f"programs of {self._whose_programs()}",
            "network": f"containers that share a namespace of their own; {Namespaces.how}",
            "page-cache-loss": self._disk_description(),
        }

    def _whose_programs(self) -> str:
        if self._contents is not None:
            return f"the image {', upgraded to '.join(self._contents.images)}"
        return "an image" if self._programs == "image" else "this machine"

    def _make_namespaces(self) -> Mapping[Endpoint, str]:
        self._client = client = engine.connect()
        self._undo.callback(client.close)
        base = image.python_image(client)
        if self._contents is not None:
            for name in self._contents.images:
                image.named_image(client, name)
        elif self._programs == "machine":
            self._image_name = base
        elif self._image_name:
            self._image_name = image.named_image(client, self._image_name)
        else:
            self._image_name = image.broker_image(client)
        self._journal.record("containers", token=self._token)
        self._undo.callback(engine.remove_containers, client, self._token)
        return {
            plan.node_id: hold_namespace(client, base, self._token, plan.node_id, self._holders) for plan in self.plans
        }

    def _host(self, plan: NodePlan) -> ContainerHost:
        if self._client is None:
            raise EnvironmentFailed("expected the environment to be set up, found that it is not")
        if self._contents is not None:
            return self._host_of_contents(self._client, plan, self._contents)
        packages = [*map(str, self._sources), PACKAGES_AT]
        settings: Mapping[str, str] = {}
        visible: Sequence[Path] = self._sources
        if self._programs == "machine":
            settings, visible = os.environ, [*visible, *_directories_of_this_machine()]
            packages = [*map(str, self._sources), str(_OURS), os.environ.get("PYTHONPATH", "")]
        housing = Housing(
            name=container_name(self._token, "node", plan.node_id),
            token=self._token,
            image=self._image_name,
            namespace_of=self._holders[plan.node_id],
            directories=(plan.directory.absolute(), plan.socket.parent),
            read_only=(*visible, *([plan.directory.parent / "clock.so"] if "clock" in self._needs else [])),
            python=sys.executable if self._programs == "machine" else PYTHON,
            environment={**settings, RUN_MARK: self._token, "PYTHONPATH": ":".join(filter(None, packages))},
            limits=self._limits,
        )
        return ContainerHost(self._client, self._running_supervisor, plan.node_id, lambda: housing)

    def _host_of_contents(self, client: DockerClient, plan: NodePlan, contents: Contents) -> ContainerHost:
        """A container of the system's own image. It runs as root, who owns the node's directories."""
        directory = plan.directory.absolute()

        def housing() -> Housing:
            return Housing(
                name=container_name(self._token, "node", plan.node_id),
                token=self._token,
                image=contents.image_of(plan),
                namespace_of=self._holders[plan.node_id],
                directories=(directory,),
                read_only=(),
                environment={**contents.environment(plan), RUN_MARK: self._token},
                limits=self._limits,
                settings={"user": ROOT, "working_dir": str(directory), "healthcheck": {"test": ["NONE"]}},
            )

        return ContainerHost(client, self._running_supervisor, plan.node_id, housing, partial(contents.sidecar, plan))


def _directories_of_this_machine() -> list[Path]:
    """All directories that a program may need, except the kernel's and temporary ones: a container has its own.

    Python and what it imports are always included.
    """
    top = [path for path in sorted(Path("/").iterdir()) if path.is_dir() and path.name not in _NOT_SEEN]
    imported_from: list[str] = [sys.prefix, sys.base_prefix, str(_OURS), *filter(None, sys.path)]
    python = {Path(path).absolute() for path in imported_from}
    return [*top, *sorted(path for path in python if path.is_dir() and path.parts[1] in _NOT_SEEN)]
