from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from harness.store.journal import FILE_NAME, Journal, is_finished, mark_healed, read_journal


def test_entries_are_read_back_in_order_after_the_harness_itself(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.record("links", blocked=[[1, 2]])
    opened, links = read_journal(tmp_path)
    assert (opened["kind"], opened["pid"]) == ("opened", os.getpid())
    assert (links["kind"], links["blocked"]) == ("links", [[1, 2]])


def test_an_entry_is_on_the_disk_when_record_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path)
    synced = []
    monkeypatch.setattr(os, "fdatasync", lambda _: synced.append((tmp_path / FILE_NAME).read_text().count("\n")))
    journal.record("paused", node=1)
    assert synced == [2]


def test_a_line_that_was_cut_short_is_not_an_entry(tmp_path: Path) -> None:
    Journal(tmp_path).record("paused", node=1)
    path = tmp_path / FILE_NAME
    path.write_bytes(path.read_bytes() + b'{"kind": "resu')
    assert [entry["kind"] for entry in read_journal(tmp_path)] == ["opened", "paused"]


def test_a_run_is_finished_when_its_journal_says_so_last(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert not is_finished(list(read_journal(tmp_path)))
    journal.finish()
    journal.finish()
    assert is_finished(list(read_journal(tmp_path)))
    with pytest.raises(ValueError, match="found it closed"):
        journal.record("paused", node=1)


def test_a_healed_run_is_finished_even_if_its_last_line_was_torn(tmp_path: Path) -> None:
    Journal(tmp_path)
    path = tmp_path / FILE_NAME
    path.write_bytes(path.read_bytes() + b'{"kind": "resu')
    mark_healed(tmp_path)
    assert is_finished(list(read_journal(tmp_path)))


def test_a_directory_without_a_journal_has_nothing_to_heal(tmp_path: Path) -> None:
    assert is_finished(list(read_journal(tmp_path)))


def test_threads_do_not_tear_each_others_lines(tmp_path: Path) -> None:
    journal = Journal(tmp_path)

    def write(thread: int) -> None:
        for number in range(20):
            journal.record("entry", thread=thread, number=number, padding="x" * 500)

    threads = [threading.Thread(target=write, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = (tmp_path / FILE_NAME).read_text().splitlines()
    assert len([json.loads(line) for line in lines]) == 81
