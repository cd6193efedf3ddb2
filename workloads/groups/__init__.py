"""The `groups` workload: members of consumer groups, besides producers and readers of a log."""

from workloads.groups.workload import GroupsWorkload

__all__ = ["GroupsWorkload"]
