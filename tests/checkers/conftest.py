from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from checkers.spark import start_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = start_session("local[2]")
    yield session
    session.stop()
