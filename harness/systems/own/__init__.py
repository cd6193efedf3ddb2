"""Harrow's own broker as the system under test: on its own quorum (`harrow_broker`), or on a ZooKeeper ensemble."""
