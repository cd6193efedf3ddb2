"""Runs of simulations: sweeps, replays, stored runs, their findings and traces."""
