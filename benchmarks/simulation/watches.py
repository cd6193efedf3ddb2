"""Counts the watches of the designs on ZooKeeper, and what they cost when a broker dies, in simulated clusters.

    python -m benchmarks.simulation.watches --topics 100 --partitions 3
    python -m benchmarks.simulation.watches --replicas 1
    python -m benchmarks.simulation.watches --picture docs/pictures/herd.svg

Columns: watches that are set, of all sessions, once every partition is led, and as many for each partition; then one of
the three brokers is killed: watches that fire until each partition is led again. The picture shows when they fire. A
line below has what is watched. Partitions with one replica are led by nobody once it is dead, so no broker is killed.
"""

from __future__ import annotations

import time
from pathlib import Path

import click

from benchmarks.simulation.herd_picture import draw
from benchmarks.simulation.quiet_clusters import BROKERS, Failover, QuietCluster
from broker.zookeeper.choices import C1, V1, V2, ZOOKEEPER_GENERATIONS


@click.command()
@click.option("--topics", default=100, show_default=True)
@click.option("--partitions", default=3, show_default=True, help="Of each topic.")
@click.option("--replicas", default=BROKERS, show_default=True, type=click.IntRange(1, BROKERS))
@click.option("--generation", "generations", multiple=True, type=click.Choice(ZOOKEEPER_GENERATIONS))
@click.option("--picture", type=click.Path(dir_okay=False, path_type=Path), help="An SVG of the herd.")
def main(topics: int, partitions: int, replicas: int, generations: tuple[str, ...], picture: Path | None) -> None:
    """Print the table."""
    if picture is not None and replicas == 1:
        raise click.UsageError("expected at least 2 replicas for a picture of what follows a death, found 1")
    click.echo(f"{BROKERS} brokers, {topics} topics of {partitions} partitions, {replicas} replicas each")
    click.echo("version  watches  a partition  a broker dies: led by it  watches fired  processor s")
    drawn: dict[str, Failover] = {}
    for generation in generations or (V1, V2, C1):
        began = time.process_time()
        cluster = QuietCluster(generation, topics, partitions, replicas)
        watches = cluster.watches()
        cells = f"{watches.total():>8} {watches.total() / len(cluster.keys):>12.2f}"
        if replicas > 1:
            drawn[generation] = failover = cluster.fail_over()
            cells += f" {failover.led:>25} {len(failover.watches):>14}"
        else:
            cells += f" {'-':>25} {'-':>14}"
        click.echo(f"{generation:<7} {cells} {time.process_time() - began:>12.0f}")
        click.echo(f"        {', '.join(f'{kind} {number}' for kind, number in watches.most_common())}")
    if picture is not None:
        picture.write_text(draw(drawn, f"{topics * partitions:,} partitions on {BROKERS} brokers"))


if __name__ == "__main__":
    main()
