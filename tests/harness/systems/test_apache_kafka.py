"""Apache Kafka itself, where `KAFKA_HOME` names an installation."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.terminal.exits import ExitStatus

pytestmark = [pytest.mark.third_party, pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(autouse=True)
def _installed() -> None:
    if "KAFKA_HOME" not in os.environ:
        pytest.skip("KAFKA_HOME names no installation of Apache Kafka")


def harrow(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "harness", *words], capture_output=True, text=True, check=False)


def run(system: Path | str, store: Path, *words: str) -> subprocess.CompletedProcess[str]:
    alone = ("--brokers", "1", "--replication-factor", "1", "--min-insync-replicas", "1", "--network", "proxies")
    return harrow("run", "--system", str(system), *alone, "--store", str(store), "--no-check", *words)


def test_a_level_that_is_not_in_force_is_refused_and_the_one_that_is_is_not(tmp_path: Path) -> None:
    variant = tmp_path / "leveled.toml"
    text = "name = 'leveled'\nextends = 'apache-kafka'\n[features]\n'metadata.version' = {}\n"
    variant.write_text(text.format(1))
    refused = run(variant, tmp_path / "store", "--faults", "none", "--duration", "2")
    assert refused.returncode == ExitStatus.FAILED, refused.stderr
    line = refused.stderr.strip().splitlines()[-1]
    assert "expected node 1 to have the finalized features metadata.version=1, found" in line
    level = re.search(r"found .*metadata\.version=(\d+)", line)
    assert level is not None
    variant.write_text(text.format(level[1]))
    accepted = run(variant, tmp_path / "store", "--faults", "none", "--duration", "2")
    assert accepted.returncode == ExitStatus.VALID, accepted.stderr
