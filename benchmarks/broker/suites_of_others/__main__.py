"""Runs the integration tests of a client library against a Harrow cluster.

    python -m benchmarks.broker.suites_of_others --suite librdkafka|kafka-python|aiokafka --sources FOLDER [--tests …]

The folder has the suite's sources: librdkafka with its tests built, kafka-python and aiokafka as they are checked out.
It is not changed. Three brokers and a controller start on loopback and end with the command. It prints a line for each
test, failures first, and keeps the logs of tests and nodes. `--tests` selects: numbers of librdkafka's tests, separated
by commas, or what pytest's -k takes. Exit status 1 if a test failed that outside.toml does not list as outside of what
Harrow implements, 4 if the suite could not be run.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.broker.suites_of_others.librdkafka import OTHER_SCENARIO, SCENARIOS, Librdkafka
from benchmarks.broker.suites_of_others.pytest_suites import PYTEST_SUITES, run_pytest_suite
from benchmarks.broker.suites_of_others.results import Outcome, Status, classify, has_failed, outside_of, table
from benchmarks.broker.suites_of_others.sources import SuiteFailedError
from harness.terminal.exits import ExitStatus
from tests.support.local_cluster import LocalCluster, NodeFailedError

CLUSTER = {
    "num_partitions": "4",
    "broker_session_timeout_ms": "9000",
    "broker_heartbeat_interval_ms": "2000",
    "min_insync_replicas": "1",
}
"""What the suites' own clusters have, beside Kafka's defaults."""

_LONELY = {"default_replication_factor": "1", "group_initial_rebalance_delay_ms": "0"}
OWN_SETTINGS = {
    "librdkafka": {"replica_selector_class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"},
    "kafka-python": _LONELY | {"group_min_session_timeout_ms": "1000"},
    "aiokafka": _LONELY | {"num_partitions": "2"},
}
IN_RACKS = ("librdkafka",)
"""A test of it reads from the follower in its rack, and expects these names."""

FIRST_BROKER = {"kafka-python": 0, "aiokafka": 0}
"""Some of their tests name broker 0."""


@contextmanager
def cluster_for(options: argparse.Namespace, logs: Path, **settings: str) -> Iterator[LocalCluster]:
    """A cluster for a suite; the logs of its nodes are kept."""
    chosen = CLUSTER | OWN_SETTINGS.get(options.suite, {}) | settings
    first = FIRST_BROKER.get(options.suite, 1)
    racks = {number: f"RACK{number}" for number in range(first, first + options.brokers)}
    with LocalCluster(
        options.brokers,
        options.controllers,
        first=first,
        racks=racks if options.suite in IN_RACKS else None,
        **chosen,
    ) as cluster:
        try:
            yield cluster
            for node in cluster.nodes.values():
                if node.process is None or node.process.poll() is not None:
                    raise SuiteFailedError(f"expected node {node.number} to live through the tests, found it ended")
        finally:
            kept = logs / "nodes"
            kept.mkdir(parents=True, exist_ok=True)
            for node in cluster.nodes.values():
                shutil.copyfile(node.directory / "log.txt", kept / f"{node.number}.txt")


def run_librdkafka(options: argparse.Namespace) -> list[Outcome]:
    """Each number in the default scenario, then those that need another one in that."""
    suite = Librdkafka(options.sources, options.logs, options.limit, options.quick)
    numbers = suite.numbers()
    if options.tests:
        wanted = options.tests.split(",")
        if unknown := sorted(set(wanted) - set(numbers)):
            raise SuiteFailedError(f"expected numbers of tests like {numbers[0]}, found {', '.join(unknown)}")
        numbers = wanted
    outcomes: dict[str, Outcome] = {}
    for scenario, settings in SCENARIOS.items():
        if numbers:
            logs = options.logs / scenario
            with cluster_for(options, logs, **settings) as cluster:
                found = suite.run(numbers, scenario, cluster.bootstrap, options.at_once)
            outcomes |= {each.test: each for each in found if not outcomes or _is_new(each, outcomes)}
        numbers = sorted({test[:4] for test, each in outcomes.items() if each.reason == OTHER_SCENARIO})
    return list(outcomes.values())


def _is_new(outcome: Outcome, earlier: dict[str, Outcome]) -> bool:
    """Whether a later scenario says more: of a test that waits for it, or of a number that came to no end."""
    if outcome.test in earlier:
        return earlier[outcome.test].reason == OTHER_SCENARIO
    return outcome.status is Status.FAILED


def run(options: argparse.Namespace) -> list[Outcome]:
    if options.suite == "librdkafka":
        return run_librdkafka(options)
    with cluster_for(options, options.logs) as cluster:
        suite, brokers = PYTEST_SUITES[options.suite], cluster.bootstrap
        return run_pytest_suite(
            suite, options.sources, brokers, options.tests, options.python, options.logs, options.limit
        )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", choices=("librdkafka", *PYTEST_SUITES), required=True)
    parser.add_argument("--sources", type=Path, required=True, help="folder of the suite's sources")
    which = "numbers (librdkafka: 0011,0052) or an expression as for pytest -k; default: all that need a broker"
    parser.add_argument("--tests", default="", help=which)
    parser.add_argument("--logs", type=Path, help="folder for logs; default: store/suites/SUITE")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds that a test may take")
    parser.add_argument("--at-once", type=int, default=3, help="tests of librdkafka at a time")
    parser.add_argument("--quick", action="store_true", help="librdkafka's tests with less data and fewer cases")
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--controllers", type=int, default=1)
    parser.add_argument("--python", default=sys.executable, help="interpreter that has what the suite's tests import")
    options = parser.parse_args(arguments)
    options.logs = options.logs or Path("store", "suites", options.suite)
    options.logs.mkdir(parents=True, exist_ok=True)
    try:
        rows = classify(run(options), outside_of(options.suite, options.brokers))
    except (SuiteFailedError, NodeFailedError, OSError) as error:
        print(f"{options.suite}: {error}", file=sys.stderr)
        return ExitStatus.FAILED
    print(table(rows))
    print(f"logs: {options.logs}")
    return 1 if has_failed(rows) else 0


if __name__ == "__main__":
    sys.exit(main())
