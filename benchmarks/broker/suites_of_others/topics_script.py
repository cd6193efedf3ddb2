"""Creates, alters and deletes topics for tests that call a script of Kafka's installation to do so.

    python -m benchmarks.broker.suites_of_others.topics_script --bootstrap-server ADDRESSES --topic NAME
        --create|--alter|--delete [--partitions N] [--replication-factor N] [--config KEY=VALUE]…

It understands what the tests ask for, and nothing more. Exit status 1 and one line if the cluster refuses.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.admin import NewPartitions, NewTopic
from kafka.errors import KafkaError

from tests.support.local_cluster import ROOT


def install(folder: Path) -> None:
    """Write the script where tests look for it in an installation of Kafka."""
    script = folder / "bin" / "kafka-topics.sh"
    script.parent.mkdir(parents=True, exist_ok=True)
    command = shlex.join(["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", __spec__.name])
    script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    script.chmod(0o755)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, default=-1)
    parser.add_argument("--replication-factor", type=int, default=-1)
    parser.add_argument("--config", action="append", default=[])
    what = parser.add_mutually_exclusive_group(required=True)
    for name in ("create", "alter", "delete"):
        what.add_argument(f"--{name}", action="store_true")
    asked = parser.parse_args(arguments)
    admin = KafkaAdminClient(bootstrap_servers=asked.bootstrap_server.split(","))
    try:
        if asked.create:
            settings = dict(each.split("=", 1) for each in asked.config)
            topic = NewTopic(asked.topic, asked.partitions, asked.replication_factor, topic_configs=settings)
            admin.create_topics([topic])
        elif asked.alter:
            admin.create_partitions({asked.topic: NewPartitions(asked.partitions)})
        else:
            admin.delete_topics([asked.topic])
    except KafkaError as error:
        print(f"{asked.topic}: {error}", file=sys.stderr)
        return 1
    finally:
        admin.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
