"""Performs runs on real clusters (phases, workers, sampler, health checks), and keeps an interactive cluster."""
