"""The broker: life cycle, metadata observer, produce, fetch, replication, ISR changes, queries.

`node.BrokerNode` receives events and hands them to the module that owns the subject. All modules work on
one `BrokerState`.
"""
