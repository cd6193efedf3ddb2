"""Schemas of requests about replicas."""
