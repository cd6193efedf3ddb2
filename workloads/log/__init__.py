"""The `log` workload: append to partitions and read back, by assignment."""

from workloads.log.workload import LogWorkload

__all__ = ["LogWorkload"]
