"""Parses and checks settings (`key=value`) that replace parts of a seed's configuration."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Final

from broker.core.rules.flaws import FLAWS
from broker.core.rules.generations import GENERATIONS
from broker.zookeeper.choices import ZOOKEEPER_GENERATIONS, switches_of
from common.names import SpecError, unknown
from simulation.faults.shared_kinds import chosen
from simulation.scenario.configuration import EXAMINATIONS, FAULTS, Configuration
from simulation.scenario.search import check_search
from simulation.workload.batches import COMPRESSIONS
from simulation.workload.making import MODEL, check_client
from simulation.workload.pipelined import IN_FLIGHT_MAX

LISTED_BY: Final = "`harrow flaws`"


def check_names(generation: str, flaws: Iterable[str] = ()) -> None:
    """Check that a protocol version of the quorum's and flaws of these names exist. Raises `SpecError`."""
    if generation not in GENERATIONS:
        raise SpecError(f"generation: {unknown(generation, GENERATIONS)}")
    check_flaws(flaws)


def check_any_names(generation: str, flaws: Iterable[str]) -> None:
    """The same with the designs on ZooKeeper too; their flaws are their switches."""
    if generation in ZOOKEEPER_GENERATIONS:
        switches = switches_of(generation)
        for name in flaws:
            if name not in switches:
                raise SpecError(f"flaw: {unknown(name, switches, f'a switch of {generation}')}")
        return
    if generation not in GENERATIONS:
        raise SpecError(f"generation: {unknown(generation, (*GENERATIONS, *ZOOKEEPER_GENERATIONS))}")
    check_flaws(flaws)


def check_flaws(flaws: Iterable[str]) -> None:
    """Check that flaws of these names exist. Raises `SpecError`."""
    for flaw in flaws:
        if flaw not in FLAWS:
            raise SpecError(f"flaw: {unknown(flaw, FLAWS, 'the name of a flaw', LISTED_BY)}")


def flaws() -> Mapping[str, str]:
    """All flaws by name, each with a description in one line."""
    return {
        name: f"{flaw.summary} ({flaw.number}; {_range(flaw.generations)}; breaks {flaw.breaks}; {flaw.source})"
        for name, flaw in FLAWS.items()
    }


def _range(generations: Sequence[str]) -> str:
    first, last = generations[0], generations[-1]
    return first if first == last else f"{first} … {last}"


_TYPES: Mapping[str, str] = {field.name: str(field.type) for field in fields(Configuration)}
SETTINGS_LISTED_BY = "docs/guide/simulation.md"
_TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_LOWEST = {"acks": -1}
_AT_LEAST_ONE = frozenset({
    "brokers", "controllers", "partitions", "replication_factor", "min_insync_replicas", "producers", "readers",
    "operations", "polls", "fault_interval_ms", "fault_duration_ms", "session_timeout_ms", "heartbeat_ms", "lag_ms",
    "log_directories",
})  # fmt: skip


def parse_overrides(settings: Iterable[str]) -> dict[str, object]:
    """Parse `key=value` settings. Raises ValueError: what was expected, what was found."""
    overrides: dict[str, object] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"expected key=value, found {setting!r}")
        if key == "faults":
            overrides |= faults_of(text)
        else:
            overrides[key] = _value(key, text)
    return overrides


def faults_of(text: str) -> dict[str, object]:
    """The setting `faults` from the text of `--faults`; empty for `all`: each seed decides. Raises ValueError."""
    kinds = chosen(text)
    return {} if kinds is None else {"faults": kinds}


def check_overrides(overrides: Mapping[str, object]) -> None:
    """Check that a configuration can have these settings. Raises ValueError."""
    for key, value in overrides.items():
        _require_key(key)
        kind = _TYPES[key]
        if kind == "int":
            lowest = _LOWEST.get(key, 1 if key in _AT_LEAST_ONE else 0)
            ok = isinstance(value, int) and not isinstance(value, bool) and value >= lowest
            _require(ok, key, f"a whole number from {lowest} on", value)
        elif kind == "bool":
            _require(isinstance(value, bool), key, "true or false", value)
        elif kind == "str":
            _require(isinstance(value, str), key, "a text", value)
        else:
            _require(
                isinstance(value, tuple) and all(isinstance(one, str) for one in value), key, "a list of texts", value
            )
    whole = Configuration(**overrides)  # type: ignore[arg-type]
    for kind in whole.faults:
        if kind not in FAULTS:
            raise ValueError(f"faults: {unknown(kind, FAULTS, 'a fault of the simulation')}")
    _require(whole.acks <= 1, "acks", "-1, 0 or 1", whole.acks)
    _require(whole.compression in COMPRESSIONS, "compression", " or ".join(COMPRESSIONS), whole.compression)
    _require(1 <= whole.in_flight <= IN_FLIGHT_MAX, "in_flight", f"1 to {IN_FLIGHT_MAX}", whole.in_flight)
    if whole.examination:
        _require(whole.examination in EXAMINATIONS, "examination", " or ".join(EXAMINATIONS), whole.examination)
    check_client(whole.client)
    check_search(whole.search)
    check_any_names(whole.generation, whole.flaws)
    if whole.generation in ZOOKEEPER_GENERATIONS:
        _require(whole.client == MODEL, "client", f"{MODEL} with {whole.generation}", whole.client)


def check_configuration(configuration: Configuration) -> None:
    """Check that the settings of a configuration fit together. Raises ValueError."""
    check_overrides(vars(configuration))
    brokers, factor = configuration.brokers, configuration.replication_factor
    _require(factor <= brokers, "replication_factor", f"at most the {brokers} brokers", factor)


def _value(key: str, text: str) -> object:
    _require_key(key)
    kind = _TYPES[key]
    if kind == "int":
        try:
            return int(text)
        except ValueError:
            raise ValueError(f"{key}: expected a whole number, found {text!r}") from None
    if kind == "bool":
        if text.lower() not in _TRUTHS:
            raise ValueError(f"{key}: expected true or false, found {text!r}")
        return _TRUTHS[text.lower()]
    if kind == "str":
        return text
    return tuple(word for word in text.split(",") if word)


def _require_key(key: str) -> None:
    if key not in _TYPES:
        raise ValueError(unknown(key, _TYPES, "a setting of the simulation", SETTINGS_LISTED_BY))


def _require(is_so: bool, key: str, expected: str, found: object) -> None:
    if not is_so:
        raise ValueError(f"{key}: expected {expected}, found {found!r}")


def repeat_command(words: Sequence[str], overrides: Mapping[str, object]) -> str:
    """`harrow WORDS` with the flags that these overrides came from."""
    words = ["harrow", *words]
    for key, value in overrides.items():
        if key in ("generation", "client", "search"):
            words += [f"--{key}", str(value)]
        elif key == "flaws":
            words += [word for flaw in _listed(value) for word in ("--flaw", flaw)]
        else:
            words += ["--set", f"{key}={_text(value)}"]
    return shlex.join(words)


def _listed(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list | tuple) else [str(value)]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(_listed(value))
