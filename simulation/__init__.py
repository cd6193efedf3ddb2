"""Simulates a whole cluster, its clients and its faults in one process; a seed decides everything.

`engine` has virtual time, network, disks, machines and the choice sequence that holds every random decision;
`workload` the clients; `faults` the nemesis; `scenario` the configuration of a seed and the phases of a test;
`examination` the questions at its end; `invariants` the observer that checks every step; `shrinking`, `runs`,
`directed`, `exhaustive` and `known_flaws` build on these. The broker cores are the same that run for real.
"""
