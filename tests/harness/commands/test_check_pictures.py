"""`harrow check --pictures` draws what no order explains, and nothing else."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from harness.commands.check import check

STALE = "\n".join(
    f"INFO  jepsen.util - {process}\t:{kind}\t:{function}\t{value}"
    for process, kind, function, value in [
        (1, "invoke", "write", 1),
        (1, "ok", "write", 1),
        (2, "invoke", "read", "nil"),
        (2, "ok", "read", "{read}"),
    ]
)


@pytest.mark.parametrize(("read", "drawn"), [("nil", ["000-etcd.html"]), ("1", [])])
def test_a_violation_is_drawn(read, drawn, tmp_path):
    history = tmp_path / "etcd.log"
    history.write_text(STALE.replace("{read}", read) + "\n")
    pictures = tmp_path / "pictures"
    result = CliRunner().invoke(check, ["--pictures", str(pictures), str(history)])
    assert sorted(path.name for path in pictures.iterdir()) == drawn
    assert ("no valid order contains read → nil of process 2" in result.stdout) == bool(drawn)
    assert all("no valid order contains" in path.read_text() for path in pictures.iterdir())


def test_a_directory_that_cannot_be_written_to_is_an_error_of_one_line(tmp_path):
    history = tmp_path / "etcd.log"
    history.write_text(STALE.replace("{read}", "nil") + "\n")
    result = CliRunner().invoke(check, ["--pictures", str(history / "below"), str(history)])
    assert result.exit_code == 2
    assert "cannot be written to: Not a directory" in result.stderr
