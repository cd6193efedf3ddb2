"""Entry point of a node's process: `harrow broker FILE.properties`, or `python -m broker.shell FILE.properties`.

Exit status: 0 after a controlled shutdown, 2 for invalid settings or directories of another cluster, 4 for a failed
disk or a taken port, 70 for a bug.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from broker.core.configuration.settings import Settings
from broker.core.node import WrongCluster, make_node
from broker.core.ports.events import StopRequested
from broker.core.ports.files import Files, StorageError
from broker.core.ports.runtime import Node
from broker.core.rules.flaws import UnknownRules
from broker.shell import properties
from broker.shell.files.fsyncs import Fsyncs
from broker.shell.files.joined_files import JoinedFiles
from broker.shell.files.ledger_files import LedgerFiles
from broker.shell.files.posix_files import PosixFiles
from broker.shell.host import NodeHost
from broker.shell.observability import admin
from broker.zookeeper.choices import ZOOKEEPER_GENERATIONS, UnknownSwitch

LOG = logging.getLogger(__name__)

EXIT_USAGE = 2
EXIT_ENVIRONMENT = 4

NodeFactory = Callable[[Settings, Files, str], Node]


class CannotStartError(Exception):
    """The node cannot start here; the text is one line for the operator."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def configure_logging() -> None:
    """Send all log records to standard error, one line each: `12:00:01.234 INFO  text`, time in UTC."""
    formatter = logging.Formatter("%(asctime)s.%(msecs)03d %(levelname)-7s %(message)s", "%H:%M:%S")
    formatter.converter = time.gmtime
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


def run(path: str, factory: NodeFactory = make_node) -> int:
    """Run a node until it ends and return its exit status."""
    configure_logging()
    try:
        settings = properties.load(Path(path))
        return asyncio.run(_run(settings, factory))
    except properties.SettingsError as error:
        LOG.error("%s", error)
        return EXIT_USAGE
    except CannotStartError as error:
        LOG.error("%s", error)
        return error.status


async def _run(settings: Settings, factory: NodeFactory) -> int:
    fsyncs = Fsyncs()
    files = _open_files(settings, fsyncs)
    node = _make_node(factory, settings, files)
    host = NodeHost(node, settings, files, lambda: print(f"ready node={settings.node_id}", flush=True), fsyncs)
    await _bind(host, settings, node)
    _handle_signals(host)
    return await host.run()


def _open_files(settings: Settings, fsyncs: Fsyncs) -> Files:
    directories = [_open_directory(settings, path, fsyncs) for path in settings.log_dirs]
    errors = [opened for opened in directories if isinstance(opened, StorageError)]
    if len(errors) == len(directories) or (settings.is_controller and isinstance(directories[0], StorageError)):
        text = f"log.dirs: expected a directory to write to, found: {errors[0]}; repair or change it"
        raise CannotStartError(EXIT_ENVIRONMENT, text)
    first = directories[0]
    return first if len(directories) == 1 and not isinstance(first, StorageError) else JoinedFiles(directories)


def _open_directory(settings: Settings, path: str, fsyncs: Fsyncs) -> Files | StorageError:
    kind = LedgerFiles if settings.storage == "page-cache" else PosixFiles
    try:
        return kind(Path(path), fsyncs=fsyncs)
    except StorageError as error:
        return error


def _make_node(factory: NodeFactory, settings: Settings, files: Files) -> Node:
    if settings.generation in ZOOKEEPER_GENERATIONS and find_spec("kazoo") is None:
        text = (
            f"harrow.generation: expected kazoo for {settings.generation}, found none; pip install 'harrow[zookeeper]'"
        )
        raise CannotStartError(EXIT_ENVIRONMENT, text)
    try:
        return factory(settings, files, str(uuid.uuid4()))
    except StorageError as error:
        text = f"log.dirs: expected readable logs, found: {error}; repair or empty {', '.join(settings.log_dirs)}"
        raise CannotStartError(EXIT_ENVIRONMENT, text) from error
    except (UnknownRules, UnknownSwitch, WrongCluster) as error:
        raise CannotStartError(EXIT_USAGE, str(error)) from error


async def _bind(host: NodeHost, settings: Settings, node: Node) -> None:
    try:
        await host.listen()
    except OSError as error:
        found = error.strerror or str(error)
        text = f"listeners: expected free addresses, found: {found}; stop what uses them or choose others"
        raise CannotStartError(EXIT_ENVIRONMENT, text) from error
    try:
        if settings.admin_socket is not None:
            await admin.serve(settings.admin_socket, node, host.metrics)
    except OSError as error:
        text = f"harrow.admin.socket: expected a path to bind, found: {error}; choose another"
        raise CannotStartError(EXIT_ENVIRONMENT, text) from error
    try:
        if settings.metrics_listener is not None:
            await admin.serve_metrics(settings.metrics_listener, host.metrics)
    except OSError as error:
        found = error.strerror or str(error)
        text = f"harrow.metrics.listener: expected a free address, found: {found}; choose another"
        raise CannotStartError(EXIT_ENVIRONMENT, text) from error


def _handle_signals(host: NodeHost) -> None:
    loop = asyncio.get_running_loop()
    stopping = False

    def stop(number: signal.Signals) -> None:
        nonlocal stopping
        if stopping:
            LOG.warning("%s again: leaves without a controlled shutdown", number.name)
            sys.stderr.flush()
            os._exit(128 + number)
        stopping = True
        LOG.info("%s: controlled shutdown", number.name)
        host.post(StopRequested())

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
