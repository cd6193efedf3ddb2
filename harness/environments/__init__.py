"""Environments that run a cluster: `local`, `docker` and `ssh`, with their capabilities."""
