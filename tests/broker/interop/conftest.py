"""One real cluster for the whole folder: three brokers and a controller."""

from __future__ import annotations

import pytest

from tests.support.local_cluster import LocalCluster


@pytest.fixture(scope="session")
def cluster():
    with LocalCluster() as running:
        yield running
