"""Simulates the designs on ZooKeeper: the ensemble, their faults, their scenario, and what must hold of them."""
