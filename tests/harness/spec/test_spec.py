from __future__ import annotations

import json
import shlex
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.names import SpecError
from harness.commands.run import _spec, run
from harness.spec.spec import ASSIGNORS, CLIENTS, Spec, from_file, from_json, reproduce, resolve, to_json
from nemesis.faults import KINDS, USUAL

flush = st.one_of(
    st.sampled_from(["never", "every-write"]),
    st.integers(1, 10_000).map(str),
    st.integers(1, 10_000).map(lambda ms: f"{ms}ms"),
)


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    brokers = draw(st.integers(1, 9))
    factor = draw(st.integers(1, brokers))
    acks = draw(st.sampled_from(["all", "1", "0"]))
    return Spec(
        seed=draw(st.integers(0, (1 << 63) - 1)),
        name=draw(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)),
        brokers=brokers,
        controllers=draw(st.integers(1, brokers)),
        combined=draw(st.booleans()),
        partitions=draw(st.integers(1, 100)),
        replication_factor=factor,
        min_insync_replicas=draw(st.integers(1, factor)),
        acks=acks,
        idempotence=acks == "all" and draw(st.booleans()),
        unclean_election=draw(st.booleans()),
        flush=draw(flush),
        faults=tuple(draw(st.lists(st.sampled_from(sorted(KINDS)), unique=True))),
        interval=draw(st.integers(1, 100)) / 2,
        duration=float(draw(st.integers(1, 1000))),
        rate=float(draw(st.integers(1, 1000))),
        concurrency=draw(st.integers(3, 64)),
        workload="groups",
        clients=tuple(draw(st.lists(st.sampled_from(CLIENTS), unique=True))),
        assignor=draw(st.sampled_from(ASSIGNORS)),
        static_members=draw(st.booleans()),
        flaws=tuple(draw(st.lists(st.sampled_from(["unclean-election", "x-y"]), unique=True))),
        network=draw(st.sampled_from(["auto", "namespaces", "proxies"])),
    )


@given(specs())
def test_a_stored_specification_is_read_back_exactly(spec: Spec) -> None:
    assert from_json(to_json(spec, {"network": "by hand"}, "harrow run")) == spec


@given(specs())
def test_the_command_that_reproduces_a_run_means_the_same(spec: Spec) -> None:
    words = shlex.split(reproduce(spec))
    assert words[:2] == ["harrow", "run"]
    parsed = run.make_context("run", words[2:]).params
    for not_of_the_specification in ("file", "schedule_named", "store", "keep", "check"):
        parsed.pop(not_of_the_specification)
    assert _spec(None, parsed) == spec


def test_a_reproduced_schedule_is_named() -> None:
    assert reproduce(Spec(seed=1), "a b/schedule.json").endswith("--schedule 'a b/schedule.json'")


def test_the_default_run_needs_no_flag_but_its_seed() -> None:
    assert reproduce(Spec(seed=7)) == "harrow run --seed 7"


def test_weaker_acks_switch_idempotence_off() -> None:
    assert not resolve({"acks": "1"}, 0).idempotence
    assert resolve({}, 0).idempotence


@pytest.mark.parametrize(
    ("given", "faults"),
    [
        ("all", ("all",)),
        ("network,kill", ("network", "kill")),
        ("usual", USUAL),
        ("none", ()),
        ("kill, pause,kill", ("kill", "pause")),
        (["pause"], ("pause",)),
    ],
)
def test_faults_are_named_in_a_list_or_all_or_none(given: object, faults: tuple[str, ...]) -> None:
    assert resolve({"faults": given}, 0).faults == faults


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"faults": "flood"}, "faults: expected the name of a fault .* found 'flood'"),
        ({"workload": "bank"}, "workload: expected one of log, register, queue, groups, admin, found 'bank'"),
        ({"environment": "moon"}, "environment: expected one of local, docker, ssh, existing, found 'moon'"),
        ({"client": "telnet"}, "client: expected one of kafka-python, aiokafka, confluent-kafka, found 'telnet'"),
        ({"brokers": 2}, r"replication-factor: .* 1 to 2 \(the number of brokers\), found 3"),
        ({"replication_factor": 1}, r"min-insync-replicas: .* 1 to 1 \(the replication factor\), found 2"),
        ({"brokers": "3"}, "brokers: expected a whole number, found '3'"),
        ({"brokers": True}, "brokers: expected a whole number, found True"),
        ({"duration": "long"}, "duration: expected a number, found 'long'"),
        ({"duration": float("nan")}, "duration: expected a number from 1 to 86400, found nan"),
        ({"rate": 0}, "rate: expected a number from 1 to 100000, found 0"),
        ({"idempotence": 1}, "idempotence: expected true or false, found 1"),
        ({"acks": "1", "idempotence": True}, "idempotence: expected acks all, found acks 1; add --no-idempotence"),
        ({"acks": 2}, "acks: expected one of all, 0, 1, found '2'"),
        ({"flush": "often"}, "flush: expected never, .* found 'often'"),
        ({"flush": "0ms"}, "flush: expected never"),
        ({"name": "../up"}, "name: expected up to 64 letters"),
        ({"seed": -1}, "seed: expected a whole number from 0"),
        ({"flaws": 3}, "flaws: expected a list of names, found 3"),
        ({"colour": "red"}, "expected a setting .* found 'colour'"),
        ({"controllers": 4, "combined": True}, r"controllers: .* 1 to 3 \(the number of brokers, with --combined\)"),
        ({"clients": "aiokafka,telnet"}, "clients: expected one of kafka-python, aiokafka, confluent-kafka, found"),
        ({"clients": "aiokafka,aiokafka"}, "clients: expected each library once, found aiokafka,aiokafka"),
        ({"clients": "aiokafka", "client": "aiokafka"}, "client: expected none beside --clients, found aiokafka"),
        ({"clients": "kafka-python,aiokafka", "concurrency": 1}, "concurrency: expected at least 2, one process for"),
        ({"workload": "groups", "assignor": "lazy"}, "assignor: expected one of eager, cooperative, found 'lazy'"),
        ({"assignor": "cooperative"}, "assignor: expected the workload groups, found the workload log; add"),
        ({"static_members": True}, "static-members: expected the workload groups, found the workload log; add"),
        ({"page_cache": "tape"}, "page-cache: expected one of auto, ext4, fuse, page-cache, power-cut, found 'tape'"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line(given: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        resolve(given, 0)
    assert "\n" not in str(caught.value)


def test_a_file_says_the_same_as_flags_with_dashes_or_underscores(tmp_path: Path) -> None:
    path = tmp_path / "nightly.toml"
    path.write_text(
        'min-insync-replicas = 1\nreplication_factor = 2\nduration = 5\nacks = 1\nfaults = ["kill"]\nflush = 10\n'
    )
    spec = resolve(from_file(path), 9)
    assert (spec.min_insync_replicas, spec.replication_factor, spec.duration) == (1, 2, 5.0)
    assert (spec.acks, spec.faults, spec.flush, spec.seed) == ("1", ("kill",), "10", 9)


def test_flags_override_a_file(tmp_path: Path) -> None:
    path = tmp_path / "nightly.toml"
    path.write_text("seed = 3\nduration = 5\n")
    flags = {"seed": 4, "duration": None, "flaws": (), "idempotence": None}
    spec = _spec(path, flags)
    assert (spec.seed, spec.duration) == (4, 5.0)


def test_a_stored_specification_can_be_run_again(tmp_path: Path) -> None:
    spec = replace(Spec(seed=5), duration=9.0, flaws=("unclean-election",))
    path = tmp_path / "spec.json"
    path.write_text(to_json(spec, {}, ""))
    assert _spec(path, {}) == spec


@pytest.mark.parametrize(("name", "text"), [("x.toml", "= 3"), ("x.json", "{"), ("x.json", "[]"), ("x.json", "{}")])
def test_a_file_that_says_nothing_is_refused_in_one_line(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(SpecError, match="expected") as caught:
        _spec(path, {})
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="expected a readable file, found: No such file"):
        from_file(tmp_path / "gone.toml")


def test_what_planted_flaws_are_is_stored_for_the_report_and_is_no_setting() -> None:
    spec = Spec(seed=5, flaws=("eager-shrink",))
    text = to_json(spec, {}, "", {}, {"eager-shrink": "a leader shrinks the ISR at once"})
    assert json.loads(text)["flaw_summaries"] == {"eager-shrink": "a leader shrinks the ISR at once"}
    assert from_json(text) == spec


def test_the_stored_specification_holds_what_readers_want(tmp_path: Path) -> None:
    stored = json.loads(to_json(Spec(seed=5), {"network": "proxies"}, "harrow run --seed 5"))
    assert stored["reproduce"] == "harrow run --seed 5"
    assert stored["mechanisms"] == {"network": "proxies"}
    assert stored["versions"]["kafka-python"] == version("kafka-python")


def test_the_lossy_budget_is_what_the_contract_allows() -> None:
    assert Spec(seed=0).lossy_budget == 1
    assert Spec(seed=0, brokers=5, replication_factor=5, min_insync_replicas=3).lossy_budget == 2
    assert Spec(seed=0, min_insync_replicas=1).lossy_budget == 1
