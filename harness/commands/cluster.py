"""The commands `harrow cluster`, `fault` and `broker`: an interactive cluster, single faults in it, a single node."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.commands.groups import NamedGroup, OneOf
from harness.commands.shared import before_start, command_for, store_option
from harness.environments.machine.helpers.programs import module_command
from harness.store.run_names import plain
from nemesis.faults import KINDS
from nemesis.recipes import kinds_in
from nemesis.targets import ROLES, SAME

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "cluster"
_NEXT = (("cluster", "status"), ("fault", "kill"), ("cluster", "down"))
_DOWN_S = 60.0
_POLL_S = 0.1


@click.group("cluster", cls=NamedGroup)
def cluster() -> None:
    """Start, inspect and stop an interactive cluster; one at a time per store."""


@cluster.command("up")
@click.option("--system", metavar="NAME|FILE", help="Another broker than Harrow's own: see `harrow systems`.")
@click.option(
    "--generation",
    metavar="VERSION",
    help="Protocol version of Harrow's own broker: K1 to K5 (K5, the latest); on ZooKeeper zk-v1, zk-v2, C1 to C3.",
)
@click.option("--brokers", type=int, metavar="N", help="Number of brokers (3, or as the system's definition says).")
@click.option(
    "--spare", type=click.IntRange(0), default=0, metavar="N", help="More brokers, for `harrow cluster add-brokers`."
)
@click.option("--controllers", type=int, metavar="N", help="Number of controllers (1, or none if the system has none).")
@click.option("--combined", is_flag=True, help="Let the first brokers be the controllers, too.")
@click.option("--environment", default="local", show_default=True, metavar="NAME", help="local or docker.")
@click.option("--network", metavar="HOW", help="namespaces or proxies (local's default).")
@click.option("--page-cache", default="auto", show_default=True, metavar="HOW", help="ext4, fuse or page-cache.")
@click.option(
    "--faults",
    metavar="LIST",
    help="Faults that must be possible (usual; on ZooKeeper process; of another system its definition's, or process).",
)
@store_option
def up(store: Path, spare: int, **flags: Any) -> None:  # noqa: ANN401
    """Start a cluster and leave it running.

    Clients on this machine reach it through proxies (the default); a network of namespaces is separate from them.
    """
    from harness.environments import possible_faults
    from harness.run.daemon_client import ABOUT, about
    from harness.run.stopping import MissingPrerequisite, RunFailed
    from harness.spec import spec as specs
    from harness.spec.designs import LEADER_RACES, ON_ZOOKEEPER
    from harness.store.run_directories import make_run_directory
    from harness.systems.factory import make_system, with_defaults

    if (_link(store) / ABOUT).exists():
        raise MissingPrerequisite(
            f"expected no cluster in {store}, found one that runs; {command_for(store, 'cluster', 'down')}"
        )
    if flags["network"] is None:
        flags["network"] = "proxies" if flags["environment"] == "local" else "auto"
    given = with_defaults({key: value for key, value in flags.items() if value is not None})
    if flags["system"] is not None or flags["generation"] in ON_ZOOKEEPER:
        given = {"faults": ("process",), **given}  # a cluster behind proxies allows no others
    brokers = given.get("brokers", 3)
    copies = {"replication_factor": min(3, brokers)}
    if flags["generation"] not in LEADER_RACES:
        copies["min_insync_replicas"] = min(2, brokers)
    spec = specs.resolve({**given, **copies, "brokers": brokers + spare, "name": NAME}, 0)
    with before_start():
        system = make_system(spec)
        spec = possible_faults.expand_families(spec, system)
        possible_faults.refuse_impossible(spec, kinds_in(spec.faults), system)
    directory = make_run_directory(store, plain([NAME, spec.environment]), None)
    log = directory / "owner.log"
    with log.open("wb") as errors:
        daemon = subprocess.Popen(
            module_command("harness.run.daemon", str(directory.absolute()), specs.to_json(spec, {}, ""), str(spare)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    assert daemon.stdout is not None
    if daemon.stdout.readline() != b"ready\n":
        daemon.wait()
        raise RunFailed(
            (log.read_text().splitlines() or ["expected the cluster to start, found that its daemon ended"])[-1]
        )
    _link(store).unlink(missing_ok=True)
    _link(store).symlink_to(directory.absolute())
    click.echo(f"brokers at {','.join(about(directory)['bootstrap'])}")
    click.echo(f"nodes in {directory / 'nodes'}; {'; '.join(command_for(store, *words) for words in _NEXT)}")


@cluster.command("status")
@store_option
def status(store: Path) -> None:
    """Show the state of nodes and partitions as the cluster reports it."""
    from harness.run.daemon_client import about, request

    click.echo(f"brokers at {','.join(about(_link(store))['bootstrap'])}")
    for reply in request(_link(store), do="status"):
        click.echo(_line(reply))


@cluster.command("add-brokers")
@store_option
def add_brokers(store: Path) -> None:
    """Start the brokers of --spare, and move partitions onto them.

    As few are moved as balance the replicas, and the preferred leaders with them. Called again, it goes on.
    """
    from harness.run.daemon_client import about, request
    from harness.run.stopping import MissingPrerequisite

    if not about(_link(store))["spare"]:
        raise MissingPrerequisite("expected a cluster with spare brokers, found none; harrow cluster up --spare 1")
    for reply in request(_link(store), do="add-brokers"):
        click.echo(_progress(reply))


@cluster.command("logs")
@click.argument("node", type=int)
@click.option("--lines", default=20, show_default=True, metavar="N", help="Number of lines.")
@store_option
def logs(node: int, lines: int, store: Path) -> None:
    """Print the last log lines of a node."""
    from harness.run.daemon_client import about
    from harness.run.stopping import MissingPrerequisite

    about(_link(store))
    log = _link(store) / "nodes" / str(node) / "node.log"
    if not log.exists():
        raise MissingPrerequisite(
            f"expected a node of the cluster, found no node {node}; {command_for(store, 'cluster', 'status')}"
        )
    for line in log.read_text(errors="replace").splitlines()[-lines:]:
        click.echo(line)


@cluster.command("down")
@store_option
def down(store: Path) -> None:
    """Stop the cluster; logs and data stay in the store."""
    from harness.run.daemon_client import ABOUT, request
    from harness.run.stopping import RunFailed

    link = _link(store)
    list(request(link, do="down"))
    deadline = time.monotonic() + _DOWN_S
    while (link / ABOUT).exists():
        if time.monotonic() > deadline:
            raise RunFailed(
                f"expected the cluster to be down within {_DOWN_S:g} s, found it up; {command_for(store, 'heal')}"
            )
        time.sleep(_POLL_S)
    click.echo(f"down; logs and data in {link.resolve() / 'nodes'}")
    link.unlink()


@click.command("fault")
@click.argument("name", type=OneOf(KINDS, "the name of a fault", "`harrow faults`"), metavar="NAME")
@click.option(
    "--target",
    default="leader",
    show_default=True,
    type=OneOf([role for role in ROLES if role != SAME], "a role"),
    metavar="ROLE",
    help="Role of the target.",
)
@click.option(
    "--partition", default=0, show_default=True, metavar="N", help="Partition of the target, if the role has one."
)
@click.option("--lasts", default=5.0, show_default=True, metavar="SECONDS", help="Time until the fault is healed.")
@click.option(
    "--parameter",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="Parameter of the fault, as in a schedule. Repeatable.",
)
@store_option
def fault(name: str, target: str, partition: int, lasts: float, parameters: tuple[str, ...], store: Path) -> None:
    """Inject one fault into the interactive cluster, hold it, and heal it. See `harrow faults` for names."""
    from harness.run.daemon_client import request
    from harness.run.stopping import RunFailed

    given = dict(_parameter(text) for text in parameters)
    wanted = {
        "kind": name,
        "role": target,
        "partition": partition,
        "lasts_ms": round(lasts * 1000),
        "parameters": given,
    }
    took_hold = healed = False
    for reply in request(_link(store), do="fault", **wanted):
        if "note" in reply:
            click.echo(reply["note"])
        else:
            took_hold, healed = reply["took_hold"], reply["healed"]
    if not (took_hold and healed):
        missing = "heal" if took_hold else "take effect"
        raise RunFailed(f"expected {name} to take effect and to heal, found that it did not {missing}")


@click.command("broker")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def broker(file: Path) -> None:
    """Run one node of Harrow's own broker in the foreground, from a properties FILE with Kafka's setting names.

    \b
    A controller and a broker on one machine:
      process.roles=controller        process.roles=broker
      node.id=100                     node.id=1
      controller.quorum.voters=100@127.0.0.1:9093   (in both)
      listeners=CONTROLLER://127.0.0.1:9093
                                      listeners=CLIENT://127.0.0.1:9092,BROKER://127.0.0.1:9192
      log.dirs=/var/tmp/node-100      log.dirs=/var/tmp/node-1

    SIGTERM shuts it down in a controlled way. All settings: docs/broker.md.
    """  # noqa: D301 (\b is for click)
    from harness.systems.own.harrow_broker import run_node

    sys.exit(run_node(file))


def _link(store: Path) -> Path:
    """The link to the directory of the interactive cluster."""
    return store / "standing"


def _parameter(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"expected NAME=VALUE, found {text!r}", param_hint="--parameter")
    return name, value


def _progress(reply: Mapping[str, Any]) -> str:
    if "planned" in reply:
        return f"{reply['planned']} of {reply['of']} partitions are to move"
    if "moved" in reply:
        before, after = (", ".join(map(str, reply[when])) for when in ("before", "after"))
        return f"{reply['moved']} has moved from {before} to {after}"
    return str(reply["note"])


def _line(reply: Mapping[str, Any]) -> str:
    if "node" in reply:
        return f"node {reply['node']} ({reply['role']}, process {reply['pid']}) {reply['state']}"
    isr = ", ".join(map(str, reply["isr"]))
    return f"{reply['topic']}-{reply['partition']} led by {reply['leader']}, in sync: {isr}"
