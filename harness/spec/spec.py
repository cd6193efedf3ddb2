"""Defines and validates the specification of a run: all settings that determine it, so that it can be repeated.

It comes from flags, from a TOML file, or from a stored `spec.json`. Every field is checked when the
specification is made; an error is one line.
"""

from __future__ import annotations

import json
import platform
import re
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, get_type_hints

from common.names import SpecError, unknown
from harness.spec.checking import expect, number, one_of, whole
from harness.spec.designs import LEADER_RACES, MEMBERS, ON_ZOOKEEPER
from nemesis.faults import USUAL, families

EXISTING: Final = "existing"
"""The environment of a cluster that Harrow did not start."""

ENVIRONMENTS: Final = ("local", "docker", "ssh", EXISTING)
OWN_SYSTEM: Final = "harrow"
"""Harrow's own broker."""

OWN_COPY: Final = "system.toml"
"""Name of the copy of a system definition in the directory of a run."""

NEXT_COPY: Final = "upgraded-system.toml"
"""Name of the copy of the definition of the version to upgrade to."""

OF_CONTAINERS: Final = frozenset({"image", "node_memory", "node_cpus"})
"""Settings that apply to the environment `docker` only."""

WORKLOADS: Final = ("log", "register", "queue", "groups", "admin")
CLIENTS: Final = ("kafka-python", "aiokafka", "confluent-kafka")
ASSIGNORS: Final = ("eager", "cooperative")
ACKS: Final = {"all": -1, "-1": -1, "0": 0, "1": 1}
RATE_OF_VMS: Final = 40.0
"""Default sends per second for VMs, where every broker is emulated: ten times slower than the machine itself."""

PACE_OF_VMS: Final = 3
"""Factor of all timeouts for VMs. Emulation costs ten times the processor time, but most of the time is waiting."""

BROKERS_OF_OTHERS_MAX: Final = 1_000
"""Brokers of a cluster that Harrow did not start; of its own it starts 9 at most."""

SEEDS: Final = 1 << 32
"""Seeds are drawn below this, so that a person can type one; any 63-bit number is accepted."""

_FLUSH: Final = re.compile(r"never|every-write|[1-9]\d{0,8}(ms)?")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

_DESCRIPTIVE_KEYS: Final = ("reproduce", "mechanisms", "versions", "flaw_summaries")
"""Keys of `spec.json` that describe the run to its readers and are not settings."""


@dataclass(frozen=True)
class Spec:
    """One run. Field names are those of the flags and of the TOML file, with `-` for `_` there."""

    seed: int
    name: str = ""  # of the run in the store; empty: made from the other settings
    system: str = OWN_SYSTEM  # or the path of a system definition
    environment: str = "local"
    brokers: int = 3
    controllers: int = 1  # voters of the metadata quorum; on ZooKeeper: members of the ensemble
    combined: bool = False  # the first of the brokers are the controllers, too
    partitions: int = 4
    replication_factor: int = 3
    min_insync_replicas: int = 2
    acks: str = "all"
    idempotence: bool = True
    unclean_election: bool = False
    flush: str = "never"  # "never", "every-write", "N" (writes) or "Nms"
    workload: str = "log"
    client: str = "kafka-python"
    clients: tuple[str, ...] = ()  # a fleet of several libraries, a worker process each; empty: `client` alone
    assignor: str = "eager"  # of groups
    static_members: bool = False  # of groups (KIP-345)
    faults: tuple[str, ...] = USUAL  # kinds; families and "all" until the environment resolves them
    intensity: int = 1  # maximum number of simultaneous faults
    swarm: bool = False  # a subset of the faults, drawn from the seed
    interval: float = 6.0  # mean seconds from the start of one fault to the start of the next
    duration: float = 60.0  # seconds of the main phase
    rate: float = 600.0  # operations a second, over all workers
    concurrency: int = 16  # logical processes that send
    generation: str = "K5"
    flaws: tuple[str, ...] = ()
    upgrade_to: str = ""  # a protocol version of Harrow's own broker, or a system definition; empty: no upgrade
    network: str = "auto"  # mechanisms of the environment
    page_cache: str = "auto"
    image: str = ""  # environment `docker`; empty: built from this machine's Python
    node_memory: int = 512  # MiB per container
    node_cpus: float = 0.0  # processors per container; 0: all
    inventory: str = ""  # environment `ssh`: the file that names the hosts
    bootstrap: str = ""  # environment `existing`: brokers of the cluster, HOST:PORT with commas
    client_config: str = ""  # environment `existing`: file with TLS and SASL for clients; empty: plain text
    vms: int = 0  # environment `ssh`: brokers in VMs that are made for the run; each controller has a VM, too

    def __post_init__(self) -> None:
        _check(self)

    @property
    def libraries(self) -> tuple[str, ...]:
        """The client libraries of the run."""
        return self.clients or (self.client,)

    @property
    def acks_number(self) -> int:
        """`acks` as in the protocol: -1 is all."""
        return ACKS[self.acks]

    @property
    def pace(self) -> int:
        """Factor by which nodes are slower than processes of this machine: scales all timeouts, theirs and ours."""
        return PACE_OF_VMS if self.vms else 1

    @property
    def nodes(self) -> int:
        """Number of processes, containers or machines that run nodes."""
        return self.brokers if self.combined else self.brokers + self.controllers

    @property
    def lossy_budget(self) -> int:
        """The f of the durability contract; at least 1, to show losses beyond the contract."""
        return max(1, self.min_insync_replicas - 1)


def _check(spec: Spec) -> None:
    whole("seed", spec.seed, 0, (1 << 63) - 1)
    whole("brokers", spec.brokers, 1, BROKERS_OF_OTHERS_MAX if spec.bootstrap else 9)
    whole("controllers", spec.controllers, 0, 9)
    if spec.combined:
        whole("controllers", spec.controllers, 1, spec.brokers, "the number of brokers, with --combined")
    whole("partitions", spec.partitions, 1, 100)
    whole("replication-factor", spec.replication_factor, 1, spec.brokers, "the number of brokers")
    whole("min-insync-replicas", spec.min_insync_replicas, 1, spec.replication_factor, "the replication factor")
    whole("concurrency", spec.concurrency, 1, 64)
    number("interval", spec.interval, 0.5, 3_600)
    number("duration", spec.duration, 1, 86_400)
    number("rate", spec.rate, 1, 100_000)
    one_of("environment", spec.environment, ENVIRONMENTS)
    one_of("workload", spec.workload, WORKLOADS)
    _check_clients(spec)
    one_of("network", spec.network, ("auto", "namespaces", "proxies"))
    one_of("page-cache", spec.page_cache, ("auto", "ext4", "fuse", "page-cache", "power-cut"))
    whole("node-memory", spec.node_memory, 64, 1 << 20)
    number("node-cpus", spec.node_cpus, 0, 1_024)
    for field in sorted(OF_CONTAINERS):
        expect(
            spec.environment == "docker" or getattr(spec, field) == getattr(Spec, field),
            _flag(field),
            "the environment docker",
            f"the environment {spec.environment}",
            "add --environment docker",
        )
    one_of("acks", spec.acks, ("all", "0", "1"))
    whole("intensity", spec.intensity, 1, 4)
    _check_machines(spec)
    if spec.generation in ON_ZOOKEEPER:
        _check_design(spec)
    _read_faults(spec.faults)
    _check_upgrade(spec)
    expect(
        not spec.idempotence or spec.acks == "all",
        "idempotence",
        "acks all",
        f"acks {spec.acks}",
        "add --no-idempotence",
    )
    expect(
        bool(_FLUSH.fullmatch(spec.flush)),
        "flush",
        "never, every-write, a number of writes, or a time like 50ms",
        repr(spec.flush),
    )
    expect(
        not spec.name or bool(_NAME.fullmatch(spec.name)),
        "name",
        "up to 64 letters, digits, dots, dashes and underscores",
        repr(spec.name),
    )


def _check_clients(spec: Spec) -> None:
    one_of("client", spec.client, CLIENTS)
    one_of("assignor", spec.assignor, ASSIGNORS)
    for client in spec.clients:
        one_of("clients", client, CLIENTS)
    expect(
        not spec.clients or spec.client == Spec.client, "client", "none beside --clients", spec.client, "leave it out"
    )
    expect(len(set(spec.clients)) == len(spec.clients), "clients", "each library once", ",".join(spec.clients))
    expect(
        len(spec.clients) <= spec.concurrency,
        "concurrency",
        f"at least {len(spec.clients)}, one process for each of the clients",
        str(spec.concurrency),
    )
    for field in ("assignor", "static_members"):
        expect(
            spec.workload == "groups" or getattr(spec, field) == getattr(Spec, field),
            _flag(field),
            "the workload groups",
            f"the workload {spec.workload}",
            "add --workload groups",
        )


def _check_machines(spec: Spec) -> None:
    whole("vms", spec.vms, 0, 9)
    machines = [name for name, given in (("inventory", spec.inventory), ("vms", spec.vms)) if given]
    if spec.environment == "ssh":
        found = " and ".join(machines) or "neither"
        expect(len(machines) == 1, "environment", "for ssh either --inventory or --vms", found)
    else:
        expect(not machines, "environment", f"ssh for {' and '.join(machines)}", spec.environment)
    _check_existing(spec)
    expect(spec.page_cache != "power-cut" or spec.vms > 0, "page-cache", "power-cut with --vms only", "no --vms")
    expect(
        not spec.vms or spec.system == OWN_SYSTEM,
        "vms",
        "Harrow's own broker, the only system that Harrow runs in VMs",
        spec.system,
        "install it on hosts and name them with --inventory",
    )
    expect(spec.vms in (0, spec.brokers), "vms", "as many as brokers, or no --brokers", str(spec.vms))


def _check_design(spec: Spec) -> None:
    """The designs on ZooKeeper have less than what came of them, and their nodes run the programs of this machine."""
    design = spec.generation
    found = spec.environment
    expect(found in ("local", "docker", "ssh"), "environment", f"local, docker or ssh for {design}", found)
    expect(not spec.vms, "vms", f"none for {design}, whose members need ZooKeeper", str(spec.vms), "use --inventory")
    expect(
        not spec.image,
        "image",
        f"none for {design}, whose nodes run this machine's programs",
        spec.image,
        "leave it out",
    )
    whole("controllers", spec.controllers, 1, 9, f"members of the ensemble of {design}")
    expect(not spec.combined, "combined", f"none for {design}, which has no controllers", "it on")
    expect(
        not spec.idempotence, "idempotence", f"none for {design}, which has no producer ids", "it on", "leave it out"
    )
    if design in LEADER_RACES:
        found = str(spec.min_insync_replicas)
        expect(found == "1", "min-insync-replicas", f"1 for {design}, which has no such setting", found, "leave it out")
    expect(not spec.unclean_election, "unclean-election", f"none for {design}, which has no such setting", "it on")
    expect(spec.acks != "0", "acks", f"all or 1 for {design}", spec.acks)
    found = spec.workload
    expect(found == "log", "workload", f"log for {design}, which has neither groups nor their like", found)


def _check_upgrade(spec: Spec) -> None:
    expect(
        not spec.upgrade_to or spec.environment in ("local", "docker"),
        "upgrade-to",
        "the environment local or docker, where nodes can be started with another version",
        f"the environment {spec.environment}",
        "leave it out",
    )


def _check_existing(spec: Spec) -> None:
    existing = spec.environment == EXISTING
    expect(
        existing == bool(spec.bootstrap),
        "environment",
        f"{EXISTING} with --bootstrap, and only with it",
        f"{spec.environment} {'with' if spec.bootstrap else 'without'} it",
        "--bootstrap alone is enough",
    )
    expect(
        existing or not spec.client_config,
        "client-config",
        "none without --bootstrap",
        spec.client_config,
        "it is for clusters that run already",
    )
    if existing:
        see = "it is in the hands of whoever runs the cluster"
        expect(spec.flush == "never", "flush", "none with --bootstrap", spec.flush, see)
        expect(not spec.controllers, "controllers", "none with --bootstrap", str(spec.controllers), see)
        expect(spec.workload != "admin", "workload", "log, register, queue or groups with --bootstrap", "admin")


# --- from flags and files -----------------------------------------------------------------------------------


def resolve(given: Mapping[str, Any], seed: int) -> Spec:
    """Make a specification from settings; `seed` is used if they have none. Raises `SpecError`."""
    known = get_type_hints(Spec)
    for key in sorted(set(given) - set(known)):
        raise SpecError(unknown(_flag(key), map(_flag, known), "a setting", "`harrow run --help`"))
    values: dict[str, Any] = {key: _typed(key, value, known[key]) for key, value in given.items()}
    values.setdefault("seed", seed)
    if values.get("inventory") or values.get("vms"):
        values.setdefault("environment", "ssh")
    if values.get("inventory"):
        values["inventory"] = str(Path(str(values["inventory"])).absolute())
    if values.get("client_config"):
        values["client_config"] = str(Path(str(values["client_config"])).absolute())
    if values.get("bootstrap"):
        values.setdefault("environment", EXISTING)
        values.setdefault("controllers", 0)
    if values.get("vms"):
        values.setdefault("brokers", values["vms"])
        values.setdefault("rate", RATE_OF_VMS)
    if "faults" in values:
        values["faults"] = _read_faults(values["faults"])
    if values.get("generation") in ON_ZOOKEEPER:
        values = {"controllers": MEMBERS, "idempotence": False, **values}
        if values["generation"] in LEADER_RACES:
            values.setdefault("min_insync_replicas", 1)
    if values.get("acks", "all") != "all":
        values.setdefault("idempotence", False)
    return Spec(**values)


def _read_faults(words: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return families.read(words)
    except families.FaultsError as error:
        raise SpecError(str(error)) from error


def _typed(key: str, value: object, wanted: object) -> object:
    """Convert a value of a flag, of TOML or of JSON to the field's type."""
    if wanted is float and type(value) is int:
        return float(value)
    if wanted == tuple[str, ...]:
        parts = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
        if isinstance(parts, list | tuple) and all(isinstance(part, str) for part in parts):
            return tuple(part for part in parts if part)
    elif wanted is str and key in ("acks", "flush") and type(value) is int:
        return "all" if key == "acks" and value == -1 else str(value)
    elif type(value) is wanted:
        return value
    raise SpecError(f"{_flag(key)}: expected {_describe_type(wanted)}, found {value!r}")


def _describe_type(wanted: object) -> str:
    names: dict[object, str] = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "a string",
    }
    return names.get(wanted, "a list of names")


def _flag(field: str) -> str:
    return field.replace("_", "-")


def from_file(path: Path) -> dict[str, Any]:
    """Read the settings of a TOML file, or of a stored `spec.json`, by field name. Raises `SpecError`."""
    try:
        text = path.read_text()
        if path.suffix == ".json":
            return _of_run(_stored(text), path.parent)
        raw = tomllib.loads(text)
    except OSError as error:
        raise SpecError(f"{path}: expected a readable file, found: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: expected TOML, found: {error}") from error
    return {key.replace("-", "_"): value for key, value in raw.items()}


def _of_run(stored: dict[str, Any], directory: Path) -> dict[str, Any]:
    """The settings of a stored run; its systems are the definitions that were copied into its directory."""
    copies = {"system": directory / OWN_COPY, "upgrade_to": directory / NEXT_COPY}
    return {**stored, **{key: str(copy.absolute()) for key, copy in copies.items() if copy.is_file()}}


def to_json(
    spec: Spec,
    mechanisms: Mapping[str, str],
    command: str,
    further_versions: Mapping[str, str] = MappingProxyType({}),
    flaw_summaries: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Serialize all fields for `spec.json`, with the command that repeats the run, the mechanisms and the versions.

    `flaw_summaries`: planted flaw → what is wrong with it, in words for the report.
    """
    descriptive = {
        "reproduce": command,
        "mechanisms": dict(mechanisms),
        "versions": {**versions(spec.libraries), **further_versions},
        **({"flaw_summaries": dict(flaw_summaries)} if flaw_summaries else {}),
    }
    return json.dumps({**asdict(spec), **descriptive}, indent=2) + "\n"


def from_json(text: str) -> Spec:
    """Read what `to_json` wrote. Raises `SpecError`."""
    return resolve(_stored(text), 0)


def _stored(text: str) -> dict[str, Any]:
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise SpecError(f"expected a specification as JSON, found text that is not: {error}") from error
    if not isinstance(raw, dict) or "seed" not in raw:
        raise SpecError("expected a specification as a JSON object with a seed, found other JSON")
    return {key: value for key, value in raw.items() if key not in _DESCRIPTIVE_KEYS}


# --- to repeat a run ----------------------------------------------------------------------------------------


def reproduce(spec: Spec, schedule: str | None = None) -> str:
    """Return the command line that repeats a run: the seed, the flags that differ from the defaults, a schedule."""
    further = () if schedule is None else ("--schedule", schedule)
    return shlex.join([*words(spec), *further])


def words(spec: Spec) -> list[str]:
    """Return the words of the command that runs a specification."""
    default = replace(Spec(seed=spec.seed), idempotence=spec.acks == "all")
    command = ["harrow", "run", "--seed", str(spec.seed)]
    for field in fields(Spec):
        value = getattr(spec, field.name)
        if field.name != "seed" and value != getattr(default, field.name):
            command += _words(field.name, value)
    return command


def _words(name: str, value: object) -> list[str]:
    flag = f"--{_flag(name)}"
    if name == "flaws":
        return [word for flaw in value for word in ("--flaw", flaw)] if isinstance(value, tuple) else []
    if name in ("faults", "clients"):
        return [flag, ",".join(value) or "none"] if isinstance(value, tuple) else []
    if value is True:
        return [flag]
    if value is False:
        return [f"--no-{_flag(name)}"]
    return [flag, f"{value:g}" if isinstance(value, float) else str(value)]


def versions(clients: tuple[str, ...]) -> Mapping[str, str]:
    """Name → version of Harrow, of the client libraries (their distributions' names), of Python and of the kernel."""
    return {
        "harrow": _installed("harrow"),
        **{client: _installed(client) for client in clients},
        "Python": platform.python_version(),
        platform.system(): platform.release(),
    }


def _installed(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "not installed"  # run from a source tree
