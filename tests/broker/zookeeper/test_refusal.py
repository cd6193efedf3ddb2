"""A process of a design that runs in the simulation only is refused in one line."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from broker.shell import main


def test_a_node_of_a_design_on_zookeeper_does_not_start_as_a_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "node.properties"
    file.write_text(
        "process.roles=broker\nnode.id=1\ncontroller.quorum.voters=100@127.0.0.1:1\n"
        f"listeners=CLIENT://127.0.0.1:1,BROKER://127.0.0.1:2\nlog.dirs={tmp_path / 'log'}\nharrow.generation=zk-v1\n"
    )
    handlers = logging.getLogger().handlers[:]
    try:
        assert main.run(str(file)) == 2
    finally:
        logging.getLogger().handlers[:] = handlers
    (line,) = capsys.readouterr().err.splitlines()
    assert "harrow.generation: expected one of K1, K2, K3, K4, K5, found 'zk-v1'" in line
