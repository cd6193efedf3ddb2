"""The controllers' quorum: Raft over the metadata log, in which followers pull (KIP-595, KIP-630, KIP-996).

`state` holds what a voter knows, `elections` decides who leads, `replication` spreads the log, `snapshots` keep it
short.
"""
