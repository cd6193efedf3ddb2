"""Before anything is started: what the machine lacks is answered as a misuse is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.environments.base import EnvironmentFailed
from harness.run.stopping import Lacking


@contextmanager
def before_start() -> Iterator[None]:
    """Have whatever an environment cannot do be `Lacking`: nothing has been started yet."""
    try:
        yield
    except EnvironmentFailed as error:
        raise Lacking(str(error)) from error
