"""Finds a broker's programs, environment and versions: on this machine, in an image, or on each node's host.

A definition's own commands (values, version) run there, before anything is started.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from common.names import SpecError
from harness.environments.base import EnvironmentFailed
from harness.environments.common.layout import roles
from harness.spec.spec import Spec
from harness.systems.definition import Command, Definition
from harness.systems.templating import TemplateError, filled

if TYPE_CHECKING:
    from docker import DockerClient

    from harness.environments.ssh.connection.hosts import SshHost
    from harness.environments.ssh.connection.ssh import SshConnection

_TIMEOUT_S = 20.0


class Printed(NamedTuple):
    """The result of a command."""

    status: int
    output: str
    errors: str


class CannotRunError(Exception):
    """A command could not be run, or did not end. The message has the reason."""


class MissingError(SpecError):
    """This machine lacks the broker, or a program with which its definition examines or prepares it."""


@dataclass(frozen=True)
class NodeRuntime:
    """The place where a node's programs run, and what is known of it."""

    where: str = ""  # in words, appended to messages; empty: this machine
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    python: str = sys.executable
    parameters: Mapping[str, object] = field(default_factory=dict)  # of the definition
    features: Mapping[str, int] = field(default_factory=dict)  # of the definition
    values: Mapping[str, str] = field(default_factory=dict)  # printed by the definition's commands
    version: str | None = None
    command: Command = ()  # an image's default command

    @property
    def names(self) -> Mapping[str, object]:
        """Names for templates that do not depend on the node."""
        return {
            "env": self.env,
            "python": self.python,
            "parameters": self.parameters,
            "features": self.features,
            "values": self.values,
        }

    def wrong(self, definition: Definition, expected: str, found: str) -> Exception:
        """An error for something missing there, in one line; on this machine it is a `MissingError`."""
        advice = f"; {definition.install}" if definition.install else ""
        line = f"{definition.path}: {expected}{self.where}, found: {found}{advice}"
        return EnvironmentFailed(line) if self.where else MissingError(line)


_Run = Callable[[Command], Printed]
"""Runs a command there to its end. Raises `CannotRunError`."""


def runtimes_of(spec: Spec, definition: Definition) -> Mapping[int, NodeRuntime]:
    """Examine the runtime of each node. Raises `SpecError`, and `EnvironmentFailed` for an image or a host."""
    nodes = list(roles(spec.brokers, spec.controllers, combined=spec.combined))
    if spec.environment == "ssh":
        return dict(zip(nodes, _on_hosts(spec, definition), strict=True))
    image = image_of(spec, definition)
    if not image:
        return dict.fromkeys(nodes, here(definition))
    from harness.environments.docker import capabilities

    try:
        capabilities.choose(spec.network, spec.page_cache, frozenset())
    except EnvironmentFailed as error:  # there is no engine
        raise SpecError(str(error)) from error
    return dict.fromkeys(nodes, _in_image(definition, image))


def image_of(spec: Spec, definition: Definition) -> str:
    """The image of the nodes' containers; empty when nodes run installed programs."""
    return (spec.image or definition.image or "") if spec.environment == "docker" else ""


def here(definition: Definition) -> NodeRuntime:
    """This machine. Raises `SpecError`."""
    return _examined(definition, NodeRuntime(), _run_here)


def _examined(definition: Definition, runtime: NodeRuntime, run: _Run) -> NodeRuntime:
    """Run the definition's commands for values and version there."""
    runtime = replace(runtime, parameters=definition.parameters, features=definition.features)
    values = {
        name: _printed(definition, runtime, f"values.{name}", command, run)
        for name, command in definition.values.items()
    }
    runtime = replace(runtime, values=values)
    if definition.version is None:
        return runtime
    return replace(runtime, version=_printed(definition, runtime, "version", definition.version, run))


def _printed(definition: Definition, runtime: NodeRuntime, key: str, command: Command, run: _Run) -> str:
    """The last line that a command prints."""
    try:
        words = filled(command, runtime.names)
    except TemplateError as error:
        raise SpecError(
            f"{definition.path}: {key}: expected a template that can be filled in, found: {error}"
        ) from error
    try:
        done = run(words)
    except CannotRunError as error:
        raise runtime.wrong(definition, f"{key}: expected to run {words[0]!r}", str(error)) from error
    lines = done.output.strip().splitlines()
    if done.status != 0 or not lines:
        said = done.errors.strip().splitlines()
        found = said[-1] if said else f"status {done.status} and nothing printed"
        raise runtime.wrong(definition, f"{key}: expected {words[0]!r} to print a value", found)
    return lines[-1].strip()


def _run_here(command: Command) -> Printed:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except OSError as error:
        raise CannotRunError(str(error.strerror)) from error
    except subprocess.TimeoutExpired as error:
        raise CannotRunError(f"no end within {_TIMEOUT_S:g} s") from error
    return Printed(done.returncode, done.stdout, done.stderr)


def _in_image(definition: Definition, name: str) -> NodeRuntime:
    """The runtime in an image, which is pulled if it is missing."""
    from harness.environments.docker import engine, image
    from harness.environments.docker.python_tree import PYTHON

    with closing(engine.connect()) as client:
        settings = image.pulled(client, name)
        runtime = NodeRuntime(f" in the image {name}", settings.environment, PYTHON, command=settings.command)
        return _examined(definition, runtime, _in_container(client, name))


def _in_container(client: DockerClient, name: str) -> _Run:
    from harness.environments.docker import engine, image

    def run(command: Command) -> Printed:
        try:
            return Printed(*image.run_once(client, name, command, _TIMEOUT_S))
        except engine.troubles() as error:
            raise CannotRunError(engine.reason_of(error)) from error

    return run


def _on_hosts(spec: Spec, definition: Definition) -> Sequence[NodeRuntime]:
    """The runtimes on the hosts of the nodes."""
    from harness.environments.ssh import selection
    from harness.environments.ssh.connection.ssh import SshConnection

    selection.capabilities_of(spec)  # reports other errors of the hosts first

    def examine(host: SshHost) -> NodeRuntime:
        with closing(SshConnection(host)) as connection:
            return on_host(definition, connection)

    hosts = selection.hosts_of(spec)
    with ThreadPoolExecutor(len(hosts)) as pool:
        return list(pool.map(examine, hosts))


def on_host(definition: Definition, connection: SshConnection) -> NodeRuntime:
    """The runtime on a host, over an open connection. Raises `SpecError`, `EnvironmentFailed`."""

    def run(command: Command) -> Printed:
        answer = connection.run(shlex.join(command), as_root=True, timeout_s=_TIMEOUT_S)
        return Printed(answer.status, answer.output, answer.errors)

    variables = run(("env", "-0")).output.split("\0")
    env = dict(line.split("=", 1) for line in variables if "=" in line)
    host = connection.host
    return _examined(definition, NodeRuntime(f" on host {host.name}", env, host.python), run)
