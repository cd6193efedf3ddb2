"""Looks in the simulator for an incident of a stored run of a real cluster."""
