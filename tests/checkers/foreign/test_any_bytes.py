"""Any bytes in a file give a verdict and a reason of one line. (Spark judges some in `test_check`.)"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkers.foreign.check import Wanted, check_files
from checkers.foreign.formats import EDN, FORMATS, STORE
from tests.checkers.input.damaged_files import REGISTER, SEEDS, mutate


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    content = draw(st.sampled_from(SEEDS))
    return mutate(content, lambda pieces: draw(st.sampled_from(pieces)), lambda *span: draw(st.integers(*span)))


CONTENTS = st.one_of(st.binary(max_size=200), mutated())
FORMS = st.sampled_from([None, None, *(form for form in FORMATS if form != STORE)])
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


def test_a_file_that_is_cut_within_an_operation_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_text(REGISTER + "{:process 0, :type :inv")
    (found,) = check_files([path], Wanted(), no_runs)
    assert (found.verdict, found.kinds) == ("unknown", ("malformed-history",))
    assert found.reason == "1 malformed rows (line 5: the text ends within an operation)"


def test_malformed_rows_do_not_hide_a_violation(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_text(REGISTER.replace("value 2}", "value 7}") + "{:process 0, :type :inv")
    (found,) = check_files([path], Wanted(form=EDN), no_runs)
    assert (found.verdict, found.kinds) == ("invalid", ("malformed-history", "not-linearizable"))
