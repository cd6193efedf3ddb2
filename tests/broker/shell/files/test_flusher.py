"""fsync on threads: order within a token, independence between tokens."""

from __future__ import annotations

from queue import SimpleQueue

import pytest

from broker.core.ports.events import Flush
from broker.core.ports.files import StorageError
from broker.shell.files.flusher import Flusher
from tests.broker.shell.shell_fakes import DEADLINE_S, GatedFiles


class Recorder:
    def __init__(self, files):
        self.done = SimpleQueue()
        self.flusher = Flusher(files.sync, lambda flush, error: self.done.put((flush.token, error)), self.done.put)

    def next(self):
        return self.done.get(timeout=DEADLINE_S)


@pytest.fixture
def files():
    return GatedFiles()


@pytest.fixture
def recorder(files):
    made = Recorder(files)
    yield made
    made.flusher.close()


def test_files_are_synced_in_the_order_given(files, recorder):
    recorder.flusher.submit(Flush("t", ("a", "b", "c")))
    assert recorder.next() == ("t", None)
    assert files.synced == ["a", "b", "c"]


def test_a_token_is_flushed_once_at_a_time_and_in_order(files, recorder):
    gate = files.gate("slow")
    recorder.flusher.submit(Flush("t", ("slow",)))
    for number in range(5):
        recorder.flusher.submit(Flush("t", (f"{number}",)))
    recorder.flusher.submit(Flush("other", ("other",)))
    assert recorder.next() == ("other", None)
    assert files.synced == ["other"]
    gate.set()
    assert [recorder.next() for _ in range(6)] == [("t", None)] * 6
    assert files.synced == ["other", "slow", "0", "1", "2", "3", "4"]


def test_a_disk_that_refuses_is_reported_and_the_rest_of_the_flush_left_out():
    files = GatedFiles({"bad": StorageError("no space left")})
    recorder = Recorder(files)
    recorder.flusher.submit(Flush("t", ("good", "bad", "never")))
    assert recorder.next() == ("t", "no space left")
    assert files.synced == ["good"]
    recorder.flusher.close()


def test_any_other_failure_is_a_bug_and_reported_as_such():
    error = ZeroDivisionError("bug")
    recorder = Recorder(GatedFiles({"bad": error}))
    recorder.flusher.submit(Flush("t", ("bad",)))
    assert recorder.next() is error
    recorder.flusher.close()


def test_closing_forgets_what_has_not_begun(files, recorder):
    gate = files.gate("slow")
    recorder.flusher.submit(Flush("t", ("slow",)))
    recorder.flusher.submit(Flush("t", ("next",)))
    recorder.flusher.close()
    gate.set()
    assert recorder.next() == ("t", None)
    for thread in recorder.flusher._threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
    assert files.synced == ["slow"]
