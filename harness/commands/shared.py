"""What commands share: `--store`, arguments that name a run, the error for a machine that lacks something."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from harness.environments.base import EnvironmentFailed
from harness.run.stopping import MissingPrerequisite
from harness.store.run_directories import DEFAULT, RUNS, find_run

_Command = TypeVar("_Command", bound=Callable[..., Any])


def store_option(command: _Command) -> _Command:
    """Add `--store`, the directory of all runs."""
    return click.option(
        "--store", default=DEFAULT, show_default=True, type=click.Path(path_type=Path), help="Directory of all runs."
    )(command)


def command_for(store: Path, *words: str) -> str:
    """The command `harrow WORDS` for this store, as a user types it."""
    return shlex.join(["harrow", *words, *(() if store == DEFAULT else ("--store", str(store)))])


def run_of(store: Path, what: str | None) -> Path:
    """The directory of a run that has a history, found as `find_run` does. Raises `StoreError`."""
    directory = find_run(store, what)
    need_history(directory)
    return directory


def need_history(directory: Path) -> None:
    """Require that a directory is that of a run. Raises `click.UsageError`."""
    if not (directory / "history").is_dir():
        store = (directory / RUNS).is_dir()
        advice = f"; it is a store: name one of its runs, or use --store {directory}" if store else ""
        raise click.UsageError(f"{directory}: expected the directory of a run, found no history in it{advice}")


@contextmanager
def before_start() -> Iterator[None]:
    """Turn `EnvironmentFailed` into `MissingPrerequisite`: nothing has been started yet."""
    try:
        yield
    except EnvironmentFailed as error:
        raise MissingPrerequisite(str(error)) from error
