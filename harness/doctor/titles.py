"""Names the capabilities that doctor probes, with their titles in its table."""

from __future__ import annotations

from collections.abc import Mapping

TITLES: Mapping[str, str] = {
    "python": "Python",
    "packages": "Python packages",
    "java": "Java for Spark",
    "store": "directory of runs",
    "temporary-directory": "temporary directory",
    "memory": "memory",
    "tasks": "threads",
    "processes": "processes",
    "loopback": "loopback",
    "namespaces": "network by namespaces",
    "shaping": "delay, loss and the like",
    "proxies": "network by proxies",
    "ext4": "page-cache loss by ext4",
    "fuse": "page-cache loss by FUSE",
    "page-cache": "page-cache loss by ledger",
    "clock": "wrong wall clocks",
    "docker": "nodes in containers",
    "ssh": "nodes on hosts, by SSH",
    "vms": "nodes in VMs",
    "aiokafka": "client aiokafka",
    "confluent-kafka": "client confluent-kafka",
    "kcat": "client kcat",
}
