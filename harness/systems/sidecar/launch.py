"""Starts a node: forks its sidecar and becomes the broker. `python -m harness.systems.sidecar.launch CONFIG.json`.

It runs the commands that prepare the node, forks the sidecar, and executes the broker: process id, signals and exit
status are the broker's own. Exit status 4, with one line, when the broker cannot be run.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from harness.systems.sidecar.config import SidecarConfig

FAILED = 4
_PREPARE_TIMEOUT_S = 60.0


def launch(config: SidecarConfig) -> int:
    """Become the broker; returns only on failure."""
    Path(config.data).mkdir(parents=True, exist_ok=True)
    os.chdir(config.directory)
    environment = {**os.environ, **config.environment}
    first = not config.prepared_once.exists()
    for command in (*(config.once if first else ()), *config.prepare):
        status = _run(command, environment)
        if status:
            return _give_up(f"expected `{' '.join(command)}` to prepare the node, found that it {status}")
    if config.once and first:
        config.prepared_once.touch()
        _sync(Path(config.data))
    broker = os.getpid()
    if os.fork() == 0:
        _attend(config, broker)
    try:
        os.execvpe(config.command[0], list(config.command), environment)  # noqa: S606
    except OSError as error:
        return _give_up(f"expected to run {config.command[0]!r}, found: {error.strerror}")


def _attend(config: SidecarConfig, broker: int) -> NoReturn:
    """Serve beside the broker until it ends. A broker without a sidecar would never count as ready: it is killed."""
    try:
        from harness.systems.sidecar.serve import serve  # takes half a second; the broker does not wait for it
    except ImportError as error:
        _give_up(f"expected to import the sidecar with {sys.executable}, found: {error}")
        os.kill(broker, signal.SIGKILL)
        os._exit(FAILED)
    serve(config, broker)
    os._exit(0)


def _run(command: Sequence[str], environment: dict[str, str]) -> str:
    """Run to the end; returns what went wrong, empty on success."""
    try:
        done = subprocess.run(command, env=environment, timeout=_PREPARE_TIMEOUT_S, check=False)
    except OSError as error:
        return f"could not be run: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"did not end within {_PREPARE_TIMEOUT_S:g} s"
    return "" if done.returncode == 0 else f"ended with status {done.returncode}"


def _sync(directory: Path) -> None:
    """Sync a directory with all that is in it: programs that format storage may not, and power fails."""
    for path in (*directory.rglob("*"), directory):
        if path.is_file() or path.is_dir():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _give_up(line: str) -> int:
    print(line, file=sys.stderr, flush=True)
    return FAILED


if __name__ == "__main__":
    sys.exit(launch(SidecarConfig.load(Path(sys.argv[1]))))
