"""The fuzzer of the broker: that it finds a planted defect, finds nothing in the broker, and what it draws."""

from __future__ import annotations

import random

import pytest

from benchmarks.broker.fuzz import __main__ as command
from benchmarks.broker.fuzz import evidence, table
from benchmarks.broker.fuzz.drawing import schemas, steps
from benchmarks.broker.fuzz.drawing.messages import Writer
from benchmarks.broker.fuzz.session import Plan, run
from broker.shell.codec import frames
from broker.shell.codec.apis import LISTENER_APIS
from broker.shell.codec.wire import DecodeError

SEED = 14


def hostile_steps(listener: str, count: int) -> tuple[steps.Step, ...]:
    found = (steps.drawn(SEED, listener, number) for number in range(4 * count))
    return tuple(step for step in found if step.kind == "one hostile value")[:count]


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.timeout(180)
def test_a_node_that_does_not_validate_requests_is_found_out_and_the_saved_file_shows_it_again(tmp_path):
    plan = Plan(
        "CLIENT", 60.0, SEED, tmp_path, "tests.broker.fuzz.defective_node", replayed=hostile_steps("CLIENT", 120)
    )
    outcome = run(plan)
    assert outcome.failed
    assert {failure.kind for failure in outcome.failures} & {"ended", "incident"}
    assert "failures" in "\n".join(table.lines(outcome))
    path = next(path for path in outcome.files if path.stem.endswith(("ended", "incident")))
    saved = evidence.load(path)
    assert saved.listener == "CLIENT"
    again = run(plan._replace(replayed=saved.steps))
    assert {failure.kind for failure in again.failures} & {"ended", "incident"}


@pytest.mark.cluster
@pytest.mark.timeout(180)
@pytest.mark.slow
@pytest.mark.parametrize("listener", LISTENER_APIS)
def test_nothing_is_found_in_the_broker_in_some_seconds(listener, tmp_path):
    outcome = run(Plan(listener, 8.0, SEED, tmp_path))
    assert [failure.text for failure in outcome.failures] == []
    assert outcome.files == ()
    assert outcome.kept is not None
    assert outcome.kept.acknowledged > 0
    assert outcome.kept.lost == ()
    assert sum(outcome.results.values()) > 20
    assert all(health.probes > 0 and health.memory_mb > 0 for health in outcome.health.values())


@pytest.mark.parametrize("listener", LISTENER_APIS)
def test_equal_seeds_draw_equal_steps_and_others_draw_others(listener):
    first = [steps.drawn(SEED, listener, number) for number in range(60)]
    assert first == [steps.drawn(SEED, listener, number) for number in range(60)]
    assert first != [steps.drawn(SEED + 1, listener, number) for number in range(60)]


@pytest.mark.parametrize("listener", LISTENER_APIS)
def test_a_request_of_every_served_version_is_well_formed_where_nothing_hostile_is_drawn(listener):
    served = {schema.api_key: schema for schema in schemas.served(listener)}
    for key, codec in LISTENER_APIS[listener].items():
        schema = served[key]
        assert schema.name == codec.name
        for version in range(codec.versions[0], codec.versions[1] + 1):
            assert any(_decodes(codec, schema, version, seed, listener) for seed in range(40)), (schema.name, version)


def _decodes(codec, schema, version, seed, listener):
    of_quorum = key_of_quorum(schema, listener)
    frame = Writer(random.Random(seed), 0.0, of_quorum=of_quorum).frame(schema, version, 7)[4:]
    header, position = frames.read_request_header(frame)
    assert (header.api_key, header.api_version, header.correlation_id) == (schema.api_key, version, 7)
    try:
        frames.read_request(codec, header, frame, position)
    except DecodeError:
        return False
    return True


def key_of_quorum(schema, listener):
    return schema.api_key in steps.QUORUM_APIS or (schema.name == "Fetch" and listener == "CONTROLLER")


def test_every_kind_of_step_is_drawn_and_becomes_the_same_step_again_from_a_saved_line():
    found = {}
    for number in range(400):
        step = steps.drawn(SEED, "CLIENT", number)
        found.setdefault(step.kind, step)
    assert len(found) == 14
    for step in found.values():
        assert steps.from_json(step.as_json()) == step


def test_a_file_that_is_none_of_the_fuzzers_is_refused_in_one_line(tmp_path, capsys, monkeypatch):
    path = tmp_path / "other.jsonl"
    path.write_text('{"a": 1}\n')
    monkeypatch.setattr("sys.argv", ["fuzz", "--replay", str(path)])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    assert "expected a file that the fuzzer has saved" in capsys.readouterr().err
