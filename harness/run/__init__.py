"""Performs one run on a real cluster: its phases, worker processes, sampler and health checks."""
