"""Disks that can forget, fail and be damaged, and how a node's disk is seen by faults."""
