"""A history without operations of clients is unknown, and the reason names what it has instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkers.foreign.check import FileVerdict, Wanted, check_files

EDN = "{{:process :nemesis, :type :info, :f {}, :value nil}}\n"


def checked(path: Path, text: str) -> FileVerdict:
    path.write_text(text)
    (found,) = check_files([path], Wanted(), lambda _runs: [])
    return found


@pytest.mark.parametrize(
    ("text", "described"),
    [
        (EDN.format(":start") * 6 + EDN.format(":stop") * 6, "12 events of nemesis (start, stop) alone"),
        ("INFO  jepsen.util - :nemesis\t:info\t:start\tnil\n" * 2, "2 events of nemesis (start) alone"),
        ("INFO  jepsen.util -  :nemesis  :info  :kill  nil\n", "1 event of nemesis (kill) alone"),
        ('{"process": "nemesis", "type": "info", "f": "start"}\n' * 3, "3 events of nemesis (start) alone"),
        (
            "".join(EDN.format(f":fault-{number}") for number in range(1_200)),
            "1,200 events of nemesis (fault-0, fault-1, fault-2, fault-3, fault-4, …) alone",
        ),
        ("{}\n", "none; 1 malformed rows (line 1: expected a :type among invoke, ok, fail and info)"),
    ],
)
def test_it_is_unknown_with_what_it_holds(text: str, described: str, tmp_path: Path) -> None:
    found = checked(tmp_path / "history", text)
    assert (found.verdict, found.counts["operations"]) == ("unknown", 0)
    assert found.reason == f"expected operations of clients, found {described}"


def test_one_operation_of_a_client_is_enough_to_be_judged(tmp_path: Path) -> None:
    client = "{:process 0, :type :invoke, :f :read, :value nil}\n{:process 0, :type :ok, :f :read, :value nil}\n"
    assert checked(tmp_path / "history", EDN.format(":start") + client).verdict == "valid"
