"""The fixture that serves a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.store.browser.served_store import Served


@pytest.fixture
def serve() -> Iterator[Callable[[Path], Served]]:
    """Serve stores until the end of the test."""
    served: list[Served] = []

    def start(store: Path) -> Served:
        served.append(Served(store))
        return served[-1]

    yield start
    for each in served:
        each.close()
