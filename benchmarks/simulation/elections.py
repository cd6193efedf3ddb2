"""Measures how long the partitions of a dead broker have no leader, in each protocol version, in simulated clusters.

    python -m benchmarks.simulation.elections --partitions 1000

Columns: partitions that the broker led; simulated time from the kill until its session has ended (with a quorum: until
the controller has fenced it), and from then on until each partition has a leader that serves; the processor time that
the simulation took for both.
"""

from __future__ import annotations

import time
from typing import Final

import click

from benchmarks.simulation.quiet_clusters import BROKERS, QuietCluster
from broker.core.rules.generations import GENERATIONS
from broker.zookeeper.choices import C1, C3, V1, V2, ZOOKEEPER_GENERATIONS

_SIDE_BY_SIDE: Final = (V1, V2, C1, C3, "K5")


@click.command()
@click.option("--partitions", default=1_000, show_default=True, help="Of one topic.")
@click.option("--generation", "generations", multiple=True, type=click.Choice((*ZOOKEEPER_GENERATIONS, *GENERATIONS)))
def main(partitions: int, generations: tuple[str, ...]) -> None:
    """Print the table."""
    click.echo(f"{BROKERS} brokers, {partitions} partitions of {BROKERS} replicas each")
    click.echo("version  led by it  noticed after ms  led again after ms  processor s")
    for generation in generations or _SIDE_BY_SIDE:
        cluster = QuietCluster(generation, 1, partitions)
        began = time.process_time()
        led, noticed_us, led_again_us, _ = cluster.fail_over()
        times = f"{noticed_us // 1000:>17} {(led_again_us - noticed_us) // 1000:>19}"
        click.echo(f"{generation:<7} {led:>10} {times} {time.process_time() - began:>12.2f}")


if __name__ == "__main__":
    main()
