"""Environments on this machine: processes, nodes, clocks and resource limits."""
