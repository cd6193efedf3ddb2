"""`harrow cluster` and `harrow fault`: a cluster for exploring by hand."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.commands.parts.names import NamedGroup, OneOf
from harness.commands.parts.starting import before_start
from harness.commands.parts.stores import command_for, store_option
from harness.environments.machine.helpers.own_python import module_command
from harness.store.run_names import plain
from nemesis.faults import KINDS
from nemesis.schedule import parts
from nemesis.targets import ROLES

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "cluster"
_NEXT = (("cluster", "status"), ("fault", "kill"), ("cluster", "down"))
_DOWN_S = 60.0
_POLL_S = 0.1


@click.group("cluster", cls=NamedGroup)
def cluster() -> None:
    """Keep a cluster for exploring by hand; one at a time in a store."""


@cluster.command("up")
@click.option("--brokers", default=3, show_default=True, metavar="N", help="Number of brokers.")
@click.option("--controllers", default=1, show_default=True, metavar="N", help="Number of controllers.")
@click.option("--combined", is_flag=True, help="Have the first of the brokers be the controllers, too.")
@click.option("--environment", default="local", show_default=True, metavar="NAME", help="local or docker.")
@click.option("--network", metavar="HOW", help="namespaces or proxies (local's default).")
@click.option("--page-cache", default="auto", show_default=True, metavar="HOW", help="ext4, fuse or page-cache.")
@click.option("--faults", default="usual", show_default=True, metavar="LIST", help="Faults that shall be possible.")
@store_option
def up(store: Path, **flags: Any) -> None:  # noqa: ANN401
    """Start a cluster and leave it running.

    Clients of this machine reach it where the network is made of proxies; a network of namespaces is apart.
    """
    from harness.environments import registry
    from harness.interactive.protocol import ABOUT, about
    from harness.run.stopping import Failed, Lacking
    from harness.spec import spec as specs
    from harness.store.store import make_run_directory
    from harness.systems import selection

    if (_place(store) / ABOUT).exists():
        raise Lacking(f"expected no cluster in {store}, found one that stands; {command_for(store, 'cluster', 'down')}")
    if flags["network"] is None:
        flags["network"] = "proxies" if flags["environment"] == "local" else "auto"
    copies = {"replication_factor": min(3, flags["brokers"]), "min_insync_replicas": min(2, flags["brokers"])}
    spec = specs.resolve({**flags, **copies, "name": NAME}, 0)
    with before_start():
        system = selection.make(spec)
        spec = registry.settled(spec, system)
        registry.check(spec, [KINDS[part] for name in spec.faults for part in parts(name)], system)
    directory = make_run_directory(store, plain([NAME, spec.environment]), None)
    log = directory / "owner.log"
    with log.open("wb") as errors:
        owner = subprocess.Popen(
            module_command("harness.interactive.daemon", str(directory.absolute()), specs.to_json(spec, {}, "")),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    assert owner.stdout is not None
    if owner.stdout.readline() != b"ready\n":
        owner.wait()
        raise Failed(
            (log.read_text().splitlines() or ["expected the cluster to stand, found that its owner ended"])[-1]
        )
    _place(store).unlink(missing_ok=True)
    _place(store).symlink_to(directory.absolute())
    click.echo(f"brokers at {','.join(about(directory)['bootstrap'])}")
    click.echo(f"nodes in {directory / 'nodes'}; {'; '.join(command_for(store, *words) for words in _NEXT)}")


@cluster.command("status")
@store_option
def status(store: Path) -> None:
    """Tell how nodes and partitions are, by the cluster's own account."""
    from harness.interactive.protocol import about, order

    click.echo(f"brokers at {','.join(about(_place(store))['bootstrap'])}")
    for said in order(_place(store), do="status"):
        click.echo(_line(said))


@cluster.command("logs")
@click.argument("node", type=int)
@click.option("--lines", default=20, show_default=True, metavar="N", help="How many lines, from the end.")
@store_option
def logs(node: int, lines: int, store: Path) -> None:
    """Print what a node logged last."""
    from harness.interactive.protocol import about
    from harness.run.stopping import Lacking

    about(_place(store))
    log = _place(store) / "nodes" / str(node) / "node.log"
    if not log.exists():
        raise Lacking(
            f"expected a node of the cluster, found no node {node}; {command_for(store, 'cluster', 'status')}"
        )
    for line in log.read_text(errors="replace").splitlines()[-lines:]:
        click.echo(line)


@cluster.command("down")
@store_option
def down(store: Path) -> None:
    """Take the cluster down; logs and data stay in the store."""
    from harness.interactive.protocol import ABOUT, order
    from harness.run.stopping import Failed

    place = _place(store)
    list(order(place, do="down"))
    deadline = time.monotonic() + _DOWN_S
    while (place / ABOUT).exists():
        if time.monotonic() > deadline:
            raise Failed(
                f"expected the cluster to be down within {_DOWN_S:g} s, found it up; {command_for(store, 'heal')}"
            )
        time.sleep(_POLL_S)
    click.echo(f"down; logs and data in {place.resolve() / 'nodes'}")
    place.unlink()


@click.command("fault")
@click.argument("name", type=OneOf(KINDS, "the name of a fault", "`harrow faults`"), metavar="NAME")
@click.option(
    "--target", default="leader", show_default=True, type=OneOf(ROLES, "a role"), metavar="ROLE", help="Whom."
)
@click.option("--partition", default=0, show_default=True, metavar="N", help="Of which partition, where it matters.")
@click.option("--lasts", default=5.0, show_default=True, metavar="SECONDS", help="Until it is healed.")
@click.option("--parameter", "parameters", multiple=True, metavar="NAME=VALUE", help="As in a schedule. Repeatable.")
@store_option
def fault(name: str, target: str, partition: int, lasts: float, parameters: tuple[str, ...], store: Path) -> None:
    """Inject one fault into the cluster that stands, hold it, and heal it. See `harrow faults` for names."""
    from harness.interactive.protocol import order
    from harness.run.stopping import Failed

    given = dict(_parameter(text) for text in parameters)
    wanted = {
        "kind": name,
        "role": target,
        "partition": partition,
        "lasts_ms": round(lasts * 1000),
        "parameters": given,
    }
    took_hold = healed = False
    for said in order(_place(store), do="fault", **wanted):
        if "note" in said:
            click.echo(said["note"])
        else:
            took_hold, healed = said["took_hold"], said["healed"]
    if not (took_hold and healed):
        raise Failed(
            f"expected {name} to take hold and to heal, found that it did not {'heal' if took_hold else 'take hold'}"
        )


def _place(store: Path) -> Path:
    """The link to the directory of the cluster that stands."""
    return store / "standing"


def _parameter(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"expected NAME=VALUE, found {text!r}", param_hint="--parameter")
    return name, value


def _line(said: Mapping[str, Any]) -> str:
    if "node" in said:
        return f"node {said['node']} ({said['role']}, process {said['pid']}) {said['state']}"
    isr = ", ".join(map(str, said["isr"]))
    return f"{said['topic']}-{said['partition']} led by {said['leader']}, in sync: {isr}"
