"""The `admin` workload: topics are created, grown, moved and deleted beside a log, while clients write to them."""

from workloads.admin.workload import AdminWorkload

__all__ = ["AdminWorkload"]
