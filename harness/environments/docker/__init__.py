"""The environment `docker`: nodes are containers, each in a network namespace that outlives it."""
