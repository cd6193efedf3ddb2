"""The designs of replication on ZooKeeper, as procedures of their own on the core's logs, replicas and ports."""
