"""A whole worker process against a stand-in broker."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from checkers.linearizability.check import check_history
from history.reader import load_table
from tests.workloads.clients.stand_in_broker import StandInBroker, Trouble
from tests.workloads.kept_objects import operations
from workloads.clients.base import Partition
from workloads.values import decode_value
from workloads.worker import WORKLOADS, parse_ends

ROOT = Path(__file__).parents[2]
PARTITIONS = [Partition("chaos", 0), Partition("chaos", 1)]


@pytest.fixture
def broker():
    stand_in = StandInBroker({"chaos": 2})
    yield stand_in
    stand_in.close()


def config(broker, directory, **changes):
    values = {
        "run_id": "run",
        "origin_ns": time.monotonic_ns(),
        "worker": 1,
        "workers": 2,
        "history": str(directory / "history"),
        "bootstrap": [broker.address],
        "topics": {"chaos": 2},
        "rate": 300.0,
        "producers": 4,
        "readers": 2,
        "seed": 5,
        "latest_interval_ms": 100,
        "request_timeout_ms": 500,
        "delivery_timeout_ms": 1000,
        "connect_timeout_s": 1.0,
    }
    path = directory / "config.json"
    path.write_text(json.dumps(values | changes))
    return path


class Worker:
    def __init__(self, process):
        self.process = process

    def send(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def wait_for(self, event, satisfied=lambda _: True):
        for line in self.process.stdout:
            report = json.loads(line)
            if report["event"] == event and satisfied(report):
                return report
        raise AssertionError(f"the worker ended without {event}: {self.process.stderr.read()}")


@contextmanager
def worker(path):
    process = subprocess.Popen(
        [sys.executable, "-m", "workloads.worker", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    try:
        yield Worker(process)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            with suppress(BrokenPipeError):
                pipe.close()


def table(directory, name):
    return load_table(directory, name).table.to_pylist()


def has_acked(count):
    return lambda report: report["sends"]["ok"] >= count


def test_a_run_from_the_first_send_to_the_last_read(broker, tmp_path):
    with worker(config(broker, tmp_path)) as running:
        assert running.wait_for("ready")["worker"] == 1
        running.wait_for("counts", has_acked(100))
        running.send("drain")
        running.wait_for("drained")
        ends = {str(partition): broker.end(topic, partition) for topic, partition in PARTITIONS}
        running.send("final " + json.dumps({"chaos": ends}))
        assert running.wait_for("final") == {"event": "final", "complete": True, "missing": []}
        running.send("stop")
        closed = running.wait_for("closed")
        assert running.process.wait(10) == 0
    operations = {row["op"]: row for row in table(tmp_path, "operations")}
    assert table(tmp_path, "workers") == [
        {"run_id": "run", "worker": 1, "operations": len(operations)},
    ]
    assert closed["operations"] == len(operations)
    sends, reads = table(tmp_path, "sends"), table(tmp_path, "reads")
    assert {operations[row["op"]]["status"] for row in sends} == {"ok"}
    for topic, partition in PARTITIONS:
        stored = [decode_value(value) for value in broker.values(topic, partition)]
        acked = {row["offset"]: row["value"] for row in sends if row["partition"] == partition}
        assert acked == dict(enumerate(stored))
        for process in {row["process"] for row in operations.values() if row["phase"] == "final"}:
            final = [
                row["value"]
                for row in reads
                if row["partition"] == partition
                and operations[row["op"]]["process"] == process
                and operations[row["op"]]["phase"] == "final"
            ]
            assert final == stored
    assert {row["kind"] for row in operations.values()} == {"send", "poll", "latest"}
    assert {row["process"] for row in operations.values()} == {1, 3, 5, 7, 9, 11}


@pytest.mark.parametrize("workload", ["register", "queue"])
def test_objects_that_a_worker_keeps_in_a_correct_log_are_linearizable(broker, tmp_path, workload):
    with worker(config(broker, tmp_path, workload=workload)) as running:
        running.wait_for("counts", has_acked(30))
        running.send("drain")
        running.wait_for("drained")
        running.send("stop")
        running.wait_for("closed")
    commands = table(tmp_path, "commands")
    verdict = check_history(operations(commands), commands[0]["model"])
    assert verdict.outcome == "valid", verdict.reason
    answered = [row for row in commands if row["status"] == "ok" and row["function"] in ("read", "cas", "dequeue")]
    assert len(answered) > 3
    assert {row["value"] for row in commands} == {row["value"] for row in table(tmp_path, "sends")}


def test_sigterm_closes_the_history_with_open_operations_unknown(broker, tmp_path):
    patient = {"request_timeout_ms": 60_000, "delivery_timeout_ms": 120_000}
    with worker(config(broker, tmp_path, **patient)) as running:
        running.wait_for("counts", has_acked(20))
        broker.on_produce = lambda *_: Trouble.SILENCE
        running.wait_for("counts", lambda report: report["open"] == 4)
        running.process.send_signal(signal.SIGTERM)
        running.wait_for("closed")
        assert running.process.wait(10) == 0
    rows = table(tmp_path, "operations")
    unfinished = [row for row in rows if row["completed_ns"] is None]
    assert len(unfinished) == 4
    assert {row["status"] for row in unfinished} == {"info"}
    assert len(table(tmp_path, "workers")) == 1


def test_a_worker_whose_harness_died_closes_its_history(broker, tmp_path):
    with worker(config(broker, tmp_path)) as running:
        running.wait_for("counts", has_acked(20))
        running.process.stdin.close()
        running.process.stdout.close()
        assert running.process.wait(10) == 0
    assert len(table(tmp_path, "workers")) == 1
    assert len(table(tmp_path, "operations")) == table(tmp_path, "workers")[0]["operations"]


def test_a_killed_worker_leaves_a_history_marked_as_incomplete(broker, tmp_path):
    with worker(config(broker, tmp_path)) as running:
        running.wait_for("counts", has_acked(20))
        running.wait_for("counts", lambda _: any((tmp_path / "history").glob("operations/part-*")))
        running.process.kill()
        running.process.wait(10)
    assert table(tmp_path, "operations")
    assert table(tmp_path, "workers") == []


@pytest.mark.slow
def test_ends_that_are_never_reached_are_reported_as_missing(broker, tmp_path):
    with worker(config(broker, tmp_path, final_timeout_s=5.0, duration_s=0.5)) as running:
        running.wait_for("drained")
        end = broker.end("chaos", 0)
        running.send(f'final {{"chaos": {{"0": {end + 5}, "1": 0}}}}')
        report = running.wait_for("final")
    assert report["complete"] is False
    assert {(each["partition"], each["position"], each["end"]) for each in report["missing"]} == {(0, end, end + 5)}
    assert len(report["missing"]) == 2


def test_a_command_that_makes_no_sense_is_answered(broker, tmp_path):
    with worker(config(broker, tmp_path)) as running:
        running.send("dance")
        assert "unknown command 'dance'" in running.wait_for("error")["message"]
        running.send("final soon")
        assert "final needs" in running.wait_for("error")["message"]


def test_without_a_broker_a_worker_ends_with_one_line(broker, tmp_path):
    broker.close()
    with worker(config(broker, tmp_path, connect_timeout_s=0.5)) as running:
        assert running.process.wait(20) == 4
        lines = running.process.stderr.read().splitlines()
    assert [line for line in lines if line.startswith("worker: ")] == [lines[-1]]
    assert "no broker could be reached" in lines[-1]


def test_an_invalid_configuration_ends_a_worker_with_status_2(broker, tmp_path):
    with worker(config(broker, tmp_path, workload="lag")) as running:
        assert running.process.wait(20) == 2
        assert running.process.stderr.read() == (
            f"worker: expected a workload, one of {', '.join(WORKLOADS)}, found 'lag'; did you mean log?\n"
        )
    assert not (tmp_path / "history").exists()


def test_a_history_that_cannot_be_written_ends_a_worker(broker, tmp_path):
    (tmp_path / "history").write_text("in the way")
    with worker(config(broker, tmp_path)) as running:
        assert running.process.wait(20) == 4
        assert "worker: cannot write the history" in running.process.stderr.read()


@pytest.mark.parametrize("text", ["", "7", '{"chaos": 7}', '{"chaos": {"x": 1}}', '{"chaos": {"0": null}}'])
def test_ends_that_are_none_are_refused(text):
    with pytest.raises(ValueError, match="final needs"):
        parse_ends(text)


def test_ends_are_read_per_partition():
    assert parse_ends('{"chaos": {"0": 3, "1": 0}}') == {PARTITIONS[0]: 3, PARTITIONS[1]: 0}
