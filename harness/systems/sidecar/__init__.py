"""What stands beside each node of a broker that is not our own, and gives it the admin endpoint that ours has.

`launch` is the node's process: it forks the attendant and becomes the broker. The attendant (`serve`) asks the broker
over its own listener, from within the node's network, so that no cut link hides the answer; what it learns is told
over a Unix socket in the shape of the broker's admin endpoint (docs/internals/architecture.md).
"""
