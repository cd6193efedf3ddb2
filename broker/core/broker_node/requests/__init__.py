"""Handlers of broker requests: produce, fetch, queries, administration."""
