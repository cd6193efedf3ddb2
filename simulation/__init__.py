"""The simulation: a whole cluster, its clients and its faults in one process, and a seed is the whole truth.

`choices` holds every random decision, `cluster` the heap of events and the machines, `network` and `disk` what can go wrong
between and below them, `clients` those who use the cluster, `swarm` what each seed makes of it all. The broker cores
are the same that run for real.
"""
