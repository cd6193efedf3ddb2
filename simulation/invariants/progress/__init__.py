"""Checks progress while faults go on: what no fault touches goes on in time."""
