"""The format of a file is recognised by its content."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkers.foreign.events import Aside, Event, Malformed
from checkers.foreign.formats import FORMATS, UnreadableError, recognise, rows_of

SAMPLES = {
    "jepsen-edn": (
        "; a comment\n[{:process 0, :type :invoke, :f :read, :value nil}\n"
        " {:process 0, :type :ok, :f :read, :value 3}]\n"
    ),
    "jepsen-log": "INFO  jepsen.util - 0\t:invoke\t:read\tnil\nINFO  jepsen.util - 0\t:ok\t:read\t3\n",
    "porcupine": (
        '{:process 0, :type :invoke, :f :get, :key "a", :value nil}\n'
        '{:process 0, :type :ok, :f :get, :key "a", :value "x"}\n'
    ),
    "json-lines": (
        '{"process": 0, "type": "invoke", "f": "read", "value": null}\n'
        '{"process": 0, "type": "ok", "f": "read", "value": 3}\n'
    ),
}


@pytest.mark.parametrize("form", SAMPLES)
def test_a_format_is_recognised_and_read(form: str, tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text(SAMPLES[form])
    assert recognise(path) == form
    rows = list(rows_of(path, form))
    assert [(row.type, row.position) for row in rows if isinstance(row, Event)] == [("invoke", 0), ("ok", 1)]
    assert len(rows) == 2


LINES = ("0\t:invoke\t:cas\t[1 2]", "0\t:fail\t:cas\t[1 2]", ":nemesis\t:info\t:start\tnil", "1\t:fail\t:read")
PREFIXES = (
    "INFO  jepsen.util - ",
    "",
    "2020-06-16 13:50:39,187{GMT}\tINFO\t[jepsen worker 3] jepsen.util: ",
    "12:01 INFO [jepsen node n1] jepsen.util - ",
)


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("blanks", [" ", "    ", " \t "])
def test_a_log_whose_columns_are_parted_by_blanks_is_read_as_one_with_tabs(
    blanks: str, prefix: str, tmp_path: Path
) -> None:
    path = tmp_path / "history"
    path.write_text("".join(f"{prefix}{line}\n" for line in LINES).replace("\t", blanks))
    assert recognise(path) == "jepsen-log"
    assert list(rows_of(path, "jepsen-log")) == [
        Event(0, 0, "invoke", "cas", (1, 2)),
        Event(1, 0, "fail", "cas", (1, 2)),
        Aside("nemesis", "start"),
        Event(3, 1, "fail", "read", None),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "{:index 1 :type :invoke :process 0 :f :read :value nil}\n{:index 2 :type :ok :process 0 :f :read :value 3}",
        "{:process 0\n :type :invoke\n :f :read\n :value nil}\n",
        "[{:f :read :process 0 :type :invoke}]",
        "; 0 :invoke :read nil\n{:process 0, :type :invoke, :f :read, :value nil}",
    ],
)
def test_edn_without_commas_is_no_log_that_is_parted_by_blanks(text: str, tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text(text)
    assert recognise(path) == "jepsen-edn"


def test_every_format_of_a_file_has_a_sample() -> None:
    assert {*SAMPLES, "store"} == set(FORMATS)


def test_the_directory_of_a_run_is_recognised(tmp_path: Path) -> None:
    assert recognise(tmp_path) is None
    (tmp_path / "history").mkdir()
    assert recognise(tmp_path) == "store"


@pytest.mark.parametrize(
    "content", [b"", b"\n\n", b"\x00\xff\x00", b"hello, world\n", b"PAR1\x15\x04", b"<html></html>"]
)
def test_what_is_no_history_is_not_recognised(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_bytes(content)
    assert recognise(path) is None


def test_a_mark_at_the_beginning_of_a_file_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text("\ufeff" + SAMPLES["json-lines"])
    assert recognise(path) == "json-lines"
    assert not any(isinstance(row, Malformed) for row in rows_of(path, "json-lines"))


def test_too_large_a_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "history"
    path.write_text(SAMPLES["jepsen-edn"])
    monkeypatch.setattr("checkers.foreign.formats.TEXT_BYTES_MAX", 10)
    with pytest.raises(UnreadableError, match="expected at most 10 bytes of EDN"):
        list(rows_of(path, "jepsen-edn"))
