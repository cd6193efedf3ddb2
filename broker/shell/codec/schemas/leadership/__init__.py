"""Schemas of the requests of a controller on ZooKeeper."""
