"""A cluster that stands until it is taken down, for exploring by hand: `harrow cluster` and `harrow fault`.

A process of its own owns it (`owner`), as a harness owns the cluster of a run, and takes orders over a Unix socket
(`orders`). Its directory is a run's directory with a journal, so that `harrow heal` works on it.
"""
