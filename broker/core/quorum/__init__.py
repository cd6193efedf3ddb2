"""The controllers' quorum: Raft over the metadata log, in which followers pull (KIP-595, KIP-630, KIP-996).

`state` is a voter's state, `elections` elects the leader, `replication` replicates the log, `snapshots` keep it
short.
"""
