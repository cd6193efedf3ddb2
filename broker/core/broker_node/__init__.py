"""The broker role: lifecycle, metadata publishing, produce, fetch, replication, ISR changes, queries.

`node.BrokerNode` receives events and dispatches them to the module for the subject. All modules share
one `BrokerState`.
"""
