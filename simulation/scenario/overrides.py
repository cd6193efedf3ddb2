"""Parts of the configuration that a person decides instead of the seed: `key=value`, checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields

from naming import unknown
from simulation.faults.kinds import chosen
from simulation.scenario.configuration import FAULTS, Configuration
from simulation.scenario.rules import check_names

_TYPES: Mapping[str, str] = {field.name: str(field.type) for field in fields(Configuration)}
SETTINGS_LISTED_BY = "docs/simulation.md"
_TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_LOWEST = {"acks": -1}
_AT_LEAST_ONE = frozenset({
    "brokers", "controllers", "partitions", "replication_factor", "min_insync_replicas", "producers", "readers",
    "operations", "polls", "fault_interval_ms", "fault_duration_ms", "session_timeout_ms", "heartbeat_ms", "lag_ms",
})  # fmt: skip


def parse(settings: Iterable[str]) -> dict[str, object]:
    """Read `key=value` words. Raises ValueError: what was expected, what was found."""
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
    """The setting `faults` as `--faults` says it; nothing for `all`: each seed decides. Raises ValueError."""
    kinds = chosen(text)
    return {} if kinds is None else {"faults": kinds}


def check(overrides: Mapping[str, object]) -> None:
    """See that a configuration can have these parts. Raises ValueError."""
    for key, value in overrides.items():
        _see_key(key)
        kind = _TYPES[key]
        if kind == "int":
            lowest = _LOWEST.get(key, 1 if key in _AT_LEAST_ONE else 0)
            ok = isinstance(value, int) and not isinstance(value, bool) and value >= lowest
            _see(ok, key, f"a whole number from {lowest} on", value)
        elif kind == "bool":
            _see(isinstance(value, bool), key, "true or false", value)
        elif kind == "str":
            _see(isinstance(value, str), key, "a text", value)
        else:
            _see(isinstance(value, tuple) and all(isinstance(one, str) for one in value), key, "a list of texts", value)
    whole = Configuration(**overrides)  # type: ignore[arg-type]
    for kind in whole.faults:
        if kind not in FAULTS:
            raise ValueError(f"faults: {unknown(kind, FAULTS, 'a fault of the simulation')}")
    _see(whole.acks <= 1, "acks", "-1, 0 or 1", whole.acks)
    check_names(whole.generation, whole.flaws)


def see_whole(configuration: Configuration) -> None:
    """See that the parts fit together. Raises ValueError."""
    check(vars(configuration))
    brokers, factor = configuration.brokers, configuration.replication_factor
    _see(factor <= brokers, "replication_factor", f"at most the {brokers} brokers", factor)


def _value(key: str, text: str) -> object:
    _see_key(key)
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


def _see_key(key: str) -> None:
    if key not in _TYPES:
        raise ValueError(unknown(key, _TYPES, "a setting of the simulation", SETTINGS_LISTED_BY))


def _see(is_so: bool, key: str, expected: str, found: object) -> None:
    if not is_so:
        raise ValueError(f"{key}: expected {expected}, found {found!r}")
