"""The command `harrow broker`: runs one node in the foreground."""

from __future__ import annotations

import sys
from pathlib import Path

import click


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

    SIGTERM shuts it down in a controlled way. All settings: docs/reference/broker.md.
    """  # noqa: D301 (\b is for click)
    from harness.systems.harrow_broker import run_node

    sys.exit(run_node(file))
