"""Runs of simulations: one, a sweep, a replay; their findings, files and traces."""
