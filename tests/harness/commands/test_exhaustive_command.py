"""`harrow sim --exhaustive`."""

import json

import pytest

from common.names import SpecError
from harness.commands.cli import main
from simulation.exhaustive import models
from simulation.exhaustive.spec import ModelBudget


def run(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main(["sim", "--exhaustive", *words])
    streams = capsys.readouterr()
    return ended.value.code, streams.out, streams.err


def test_a_flaw_is_shown_step_by_step(capsys):
    code, out, _ = run(capsys, "--flaw", "advance-below-min-isr")
    assert code == 1
    assert "violated after 3 steps (in the TLA+ model 3): P-10" in out
    assert "1  the client sends record 1 to broker 1" in out
    assert "the session of broker 2, which runs, expires" in out


def test_a_correct_model_has_no_violation(capsys):
    code, out, _ = run(capsys, "--set", "records=2", "--set", "isr=3", "--jobs", "1")
    assert code == 0
    assert "no violation in any order" in out


def test_json_has_the_steps_that_replay_takes(capsys):
    code, out, _ = run(capsys, "--flaw", "eager-shrink", "--json")
    (found,) = json.loads(out)
    assert code == 1
    assert found["verdict"] == "violated"
    assert found["steps"][0] == "the client sends record 1 to broker 1"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "recrds=2"], "found 'recrds'; did you mean records?"),
        (["--set", "isr=7"], "expected isr from 2 to 3, found '7'"),
        (["--set", "moves=1.9"], "expected replicas like 1.2/1.2.3 for moves, found '1.9'"),
        (["--set", "world=flat"], "world: expected"),
        (["--flaw", "vote-not-remembered"], "expected a flaw with a model of its own"),
        (["--seed", "3"], "expected one of --seeds, --seed, --schedule and --exhaustive"),
    ],
)
def test_bad_input_is_one_line_and_status_2(capsys, words, message):
    code, _, err = run(capsys, *words)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_settings_change_a_predefined_model():
    (spec,) = models.specs_of("K4", ["eager-shrink"], ["world=moves", "moves=2.3/1.2/1.2.3", "kills=1"])
    assert spec.budget == ModelBudget(records=1, kills=1, orders=3)
    assert (spec.initial_isr, spec.generation, spec.flaws) == (3, "K4", ("eager-shrink",))


def test_an_unknown_flaw_is_refused():
    with pytest.raises(SpecError, match="found 'no-such-flaw'"):
        models.specs_of(None, ["no-such-flaw"], [])
