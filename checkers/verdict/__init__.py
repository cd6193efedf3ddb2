"""Findings, their counts and evidence, the contract, and the verdict of a run."""
