"""The sidecar of each node of a third-party broker, which gives it the admin endpoint of our own broker.

`launch` is the node's process: it forks the sidecar and becomes the broker. The sidecar (`serve`) queries the broker
over its own listener, from within the node's network, so that no cut link hides the answer, and serves the results
over a Unix socket in the format of our broker's admin endpoint (docs/reference/broker.md).
"""
