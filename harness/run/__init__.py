"""Performs one run: phases, workers, samplers, checks."""
