"""Shared by all environments: the layout of nodes, set-up and tear-down, the cluster as faults see it."""
