"""The whole examination: the questions of the kind that a seed has drawn (`simulation.scenario.configuration`)."""

from __future__ import annotations

from simulation.engine.cluster import SimulatedCluster
from simulation.examination import administering, describing, grouping, reading, topics, writing
from simulation.examination.examiner import Examiner, WrongAnswer
from simulation.examination.topics import FOLDED, PLAIN
from simulation.invariants.properties import Violation
from simulation.scenario.configuration import Configuration
from simulation.workload.clients import TOPIC


def examine(examiner: Examiner, cluster: SimulatedCluster, configuration: Configuration, partitions: int) -> None:
    """Ask a healed cluster, whose main topic has so many partitions. Raises `Violation` at the first wrong answer."""
    try:
        _ask(examiner, cluster, configuration, partitions)
    except WrongAnswer as wrong:
        raise Violation(examiner.property_id, str(wrong)) from None


def _ask(examiner: Examiner, cluster: SimulatedCluster, configuration: Configuration, partitions: int) -> None:
    brokers = range(1, configuration.brokers + 1)
    match configuration.examination:
        case "describing":
            examiner.property_id = describing.PROPERTY
            topics.create(examiner, cluster, brokers, PLAIN)
            describing.examine(examiner, cluster, brokers)
        case "reading":
            examiner.property_id = reading.PROPERTY
            topics.create(examiner, cluster, brokers, PLAIN, FOLDED)
            topics.fill(examiner, cluster)
            logs = [] if configuration.compacted else [(TOPIC, number) for number in range(partitions)]
            reading.examine(examiner, cluster, brokers, [*logs, (PLAIN, 0)])
        case "writing":
            examiner.property_id = writing.PROPERTY
            topics.create(examiner, cluster, brokers, *topics.ALL)
            writing.examine(examiner, cluster, brokers)
        case "grouping":
            examiner.property_id = grouping.PROPERTY
            topics.create(examiner, cluster, brokers, PLAIN)
            grouping.examine(examiner, cluster, brokers[-1])
        case _:
            examiner.property_id = administering.PROPERTY
            topics.create(examiner, cluster, brokers, *topics.ALL)
            topics.fill(examiner, cluster)
            administering.examine(examiner, cluster, brokers)
