"""The examination at the end of a simulation: a client asks healed brokers what it knows the answers to (P-E1 to P-E5).

While faults go on, most requests of clients are plain sends and polls. What is asked seldom, and what a client must be
refused, is asked here, in whatever state the seed has left the cluster.
"""
