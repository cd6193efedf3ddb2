"""Schemas of the controllers' quorum."""
