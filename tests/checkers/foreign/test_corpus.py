"""Histories that other tools wrote, with their known verdicts and anomalies."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import checkers
from checkers.check import check
from checkers.foreign.check import FileVerdict, Wanted, check_files
from history.anomalies import MALFORMED

CORPUS = Path(checkers.__file__).parent.parent.parent / "shared" / "corpus"

pytestmark = pytest.mark.skipif(
    not CORPUS.is_dir(), reason="the corpus of third-party histories is not beside the project"
)


def loaded(name: str) -> Any:
    path = CORPUS / name
    return json.loads(path.read_text()) if path.is_file() else []


LINEARIZABILITY = loaded("linearizability.json")
CASES = loaded("jepsen-kafka/cases.json")["cases"] if CORPUS.is_dir() else []
NOT_OURS = ("PL-", "strong-PL-")
"""Jepsen names some cycles a second time, less precisely."""


def checked(paths: Sequence[Path], **wanted: Any) -> list[FileVerdict]:
    def no_spark(runs: Sequence[Path]) -> list[Any]:
        raise AssertionError(f"no Spark is needed for {runs}")

    return check_files(paths, Wanted(**wanted), no_spark)


@pytest.mark.parametrize("entry", LINEARIZABILITY, ids=lambda entry: entry["file"])
def test_a_history_gets_its_verdict(entry: dict[str, Any]) -> None:
    (found,) = checked([CORPUS / entry["file"]])
    assert (found.verdict, found.kinds) == (
        ("valid", ()) if entry["linearizable"] else ("invalid", ("not-linearizable",))
    ), found.reason


@pytest.mark.parametrize(
    "entry",
    [entry for entry in LINEARIZABILITY if entry["file"].endswith(".log")][::9],
    ids=lambda entry: entry["file"],
)
def test_blanks_for_tabs_change_no_verdict(entry: dict[str, Any], tmp_path: Path) -> None:
    text = (CORPUS / entry["file"]).read_text()
    assert "\t:" in text
    path = tmp_path / "history.log"
    path.write_text(text.expandtabs(4))
    (found,) = checked([path])
    assert (found.verdict, MALFORMED in found.counts) == ("valid" if entry["linearizable"] else "invalid", False)


@pytest.mark.parametrize("entry", LINEARIZABILITY[::7], ids=lambda entry: entry["file"])
def test_naming_the_model_and_its_initial_value_changes_nothing(entry: dict[str, Any]) -> None:
    for model in entry["models"]:
        is_text = isinstance(model["initial"], str)
        initial = {} if is_text else {"initial": model["initial"], "has_initial": True}
        (found,) = checked([CORPUS / entry["file"]], model=model["name"], **initial)
        assert found.verdict == ("valid" if entry["linearizable"] else "invalid")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_kafka_history_gets_its_kinds(case: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text("".join(json.dumps(operation) + "\n" for operation in case["history"]))
    (found,) = checked([path], profile="jepsen-kafka")
    assert set(case["asserted_present"]) <= set(found.kinds)
    assert not set(case["asserted_absent"]) & set(found.kinds)
    if case.get("asserted_no_errors"):
        assert found.kinds == ()
    (found,) = checked([path], profile="jepsen-kafka" if case["options"]["ww_deps"] else "jepsen-kafka-wr")
    expected = {kind for kind in case["jepsen_full_error_types"] if not kind.startswith(NOT_OURS)}
    bad = set(case["jepsen_bad_error_types"]["subscribe" if _subscribes(case) else "assign"])
    if case.get("unseen_artifact_values") and "unseen" not in found.kinds:
        expected.discard("unseen")
        bad.discard("unseen")
    assert set(found.kinds) == expected
    if expected == {"empty-transaction-graph"}:
        assert found.verdict == "unknown"
    else:
        assert found.verdict == ("invalid" if bad else "valid")


@pytest.mark.slow
@pytest.mark.spark
def test_runs_on_apache_kafka_get_their_verdicts(spark: SparkSession, tmp_path: Path) -> None:
    stored = CORPUS / "apache-kafka"
    if not stored.is_dir():
        pytest.skip("the stored runs on Apache Kafka are not beside the project")
    shutil.copytree(stored, tmp_path / "runs")
    for place in (tmp_path / "runs").rglob("*"):  # the stored runs may be read-only
        place.chmod(place.stat().st_mode | stat.S_IWUSR)
    names = ("last-replica-standing", "last-replica-standing-elr", "three-faults-at-once")
    lost, kept, excused = check([tmp_path / "runs" / name for name in names], spark)
    assert [result.verdict for result in (lost, kept, excused)] == ["invalid", "valid", "valid"]
    assert lost.anomalies["lost-acked-write"].violations == 1012
    assert lost.incidents[0].causes[0].faults[0] == 3
    assert sum(count.within_contract for count in excused.anomalies.values()) == 67


def _subscribes(case: dict[str, Any]) -> bool:
    return any(operation["f"] == "subscribe" for operation in case["history"])


def test_values_that_only_jepsen_calls_unseen_are_not() -> None:
    artifacts = [case for case in CASES if case.get("unseen_artifact_values")]
    assert len(artifacts) >= 5
