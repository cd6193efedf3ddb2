"""The output for a directed schedule: the leader-epoch pair, and the last replica standing."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.commands import cli
from harness.terminal.exits import ExitStatus
from simulation.directed import files, load

SHOWN = {
    "truncate-to-high-watermark": "broker 2 cut its log from 1 to 0, and what was at 0 is committed",
    "divergence-after-hard-failures": "broker 1 has 1 of epoch 0, broker 2 has 3 of epoch 3",
    "keep-last-in-sync": "value 1 was acknowledged at offset 0 of partition 0, and the final reads do not show it",
}


@pytest.mark.parametrize("name", SHOWN)
def test_the_report_of_a_schedule_shows_its_trace_and_its_result(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = files.DIRECTED_SCHEDULES.find(name)
    with pytest.raises(SystemExit) as ended:
        cli.main(["sim", "--schedule", str(path), "--store", str(tmp_path)])
    assert ended.value.code == ExitStatus.ANOMALIES
    output = capsys.readouterr().out
    assert "without: nothing wrong" in output
    assert SHOWN[name] in output
    page = (tmp_path / "latest" / "report.html").read_text()
    assert load(path).title in page
    assert SHOWN[name] in page
    assert "step 1: " in page
    assert "VIOLATION" in page
    assert "registers, previous epoch -1" not in page.partition("step 1: ")[0], "it begins with the first step"
