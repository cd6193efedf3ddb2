"""Whatever bytes are in a file, there is a verdict and a reason of one line."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from checkers.check import check
from checkers.foreign.check import Wanted, check_files
from checkers.foreign.recognise import EDN, FORMATS, STORE
from checkers.verdict import RunResult
from tests.checkers.garbage import write_garbage

KAFKA = "".join(
    json.dumps(operation) + "\n"
    for operation in (
        {"process": 0, "type": "invoke", "f": "send", "value": [["send", "x", None, "a"], ["send", "x", None, "b"]]},
        {"process": 0, "type": "ok", "f": "send", "value": [["send", "x", 0, "a"], ["send", "x", 1, "b"]]},
        {"process": 1, "type": "invoke", "f": "poll", "value": [["poll", None]]},
        {"process": 1, "type": "ok", "f": "poll", "value": [["poll", [["x", [[0, "a"], [1, "b"]]]]]]},
        {"process": 1, "type": "info", "f": "subscribe", "value": ["x", "y"], "rebalance-log": [{"keys": ["x"]}]},
    )
)
REGISTER = """\
{:process 0, :type :invoke, :f :cas, :value [0 2]}
{:process 1, :type :invoke, :f :read, :value nil}
{:process 0, :type :ok, :f :cas, :value [0 2]}
{:process 1, :type :ok, :f :read, :value 2}
"""
LOG = "INFO  jepsen.util - 0\t:invoke\t:write\t3\nINFO  jepsen.util - 0\t:ok\t:write\t3\n"
KEY_VALUE = (
    '{:process 0, :type :invoke, :f :append, :key "a", :value "x"}\n{:process 0, :type :ok, :f :append, :key "a"}\n'
)
SEEDS = [text.encode() for text in (KAFKA, REGISTER, LOG, KEY_VALUE)]
PIECES = [b"", b"{", b"}", b"[", b"]", b'"', b"\\", b"\n", b"\t", b":", b"nil", b"null", b"-1", b"1e999", b"9" * 30]
PIECES += [
    b"#{",
    b"#_",
    b";",
    b"\xff\x00",
    b"true",
    b":send",
    b'"send"',
    b"[[[[[",
    b":type :ok",
    b'"type": "ok"',
    b"NaN",
]


def mutate(content: bytes, pick: Callable[[Sequence[bytes]], bytes], number: Callable[[int, int], int]) -> bytes:
    """Cut, double or overwrite a history in a few places. `number` is one between two, both included."""
    for _ in range(number(1, 4)):
        begin = number(0, len(content))
        end = number(begin, min(len(content), begin + 40))
        content = content[:begin] + pick([*PIECES, content[begin:end] * 2]) + content[end:]
    return content


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    content = draw(st.sampled_from(SEEDS))
    return mutate(content, lambda pieces: draw(st.sampled_from(pieces)), lambda *span: draw(st.integers(*span)))


CONTENTS = st.one_of(st.binary(max_size=200), mutated())
FORMS = st.sampled_from([None, None, *(form for form in FORMATS if form != STORE)])
RUNS, FILES = 40, 25
SETTINGS = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def no_runs(runs: Sequence[Path]) -> list[Any]:
    raise AssertionError(f"no Spark is needed for {runs}")


@given(content=CONTENTS, form=FORMS, profile=st.booleans(), data=st.data())
@settings(SETTINGS, max_examples=300)
def test_there_is_a_verdict(
    content: bytes, form: str | None, profile: bool, data: st.DataObject, tmp_path: Path
) -> None:
    path = tmp_path / "history"
    path.write_bytes(content)
    model = None if profile else data.draw(st.sampled_from(["cas-register", "kv", "set", "append-only-log"]))
    wanted = Wanted(model, "jepsen-kafka" if profile else None, form)
    (found,) = check_files([path], wanted, no_runs)
    assert found.verdict in ("valid", "invalid", "unknown")
    assert found.reason
    assert "\n" not in found.reason
    assert json.loads(json.dumps(found.to_json()))["kinds"] == list(found.kinds)
    if not content.strip():
        assert found.kinds == ("malformed-history",) or found.counts["operations"] == 0


@pytest.mark.spark
def test_there_is_a_verdict_from_spark_on_any_bytes_and_on_any_tables(spark: SparkSession, tmp_path: Path) -> None:
    """Other content each time; pytest's `--randomly-seed`, with the number that it begins with, brings it back."""
    runs = [tmp_path / f"garbage-{seed}" for seed in random.sample(range(2**32), RUNS)]
    for run in runs:
        write_garbage(run, int(run.name.removeprefix("garbage-")))
    files = [tmp_path / f"{number}.history" for number in range(FILES)]
    for file, content in zip(files, itertools.cycle(SEEDS), strict=False):
        file.write_bytes(mutate(content, random.choice, random.randint))
    checked: list[RunResult] = []

    def check_runs(directories: Sequence[Path]) -> list[RunResult]:
        checked.extend(check(directories, spark))
        return checked

    verdicts = check_files([*runs, *files], Wanted(), check_runs)
    assert [found.file for found in verdicts] == [str(path) for path in (*runs, *files)]
    assert all(found.verdict in ("valid", "invalid", "unknown") and found.reason for found in verdicts)
    assert len(checked) > RUNS, "some of the files are judged by Spark too"
    assert [result.directory for result in checked[:RUNS]] == runs
    assert all((run / "results.json").is_file() for run in runs)
    assert "valid" not in {result.verdict for result in checked[:RUNS]}


def test_a_file_that_is_cut_within_an_operation_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_text(REGISTER + "{:process 0, :type :inv")
    (found,) = check_files([path], Wanted(), no_runs)
    assert (found.verdict, found.kinds) == ("unknown", ("malformed-history",))
    assert found.reason == "1 malformed rows (line 5: the text ends within an operation)"


def test_a_violation_stays_one_beside_malformed_rows(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_text(REGISTER.replace("value 2}", "value 7}") + "{:process 0, :type :inv")
    (found,) = check_files([path], Wanted(form=EDN), no_runs)
    assert (found.verdict, found.kinds) == ("invalid", ("malformed-history", "not-linearizable"))
