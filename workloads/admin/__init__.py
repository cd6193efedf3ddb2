"""The `admin` workload: topics are created, grown, moved and deleted beside a log, and under writes of their own."""

from workloads.admin.workload import AdminWorkload

__all__ = ["AdminWorkload"]
