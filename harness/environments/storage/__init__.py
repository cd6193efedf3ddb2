"""Disks that can lose unsynced data, fail and be damaged, and a node's disk as faults see it."""
