"""An interactive cluster, which runs until it is stopped: `harrow cluster` and `harrow fault`.

A daemon owns it (`daemon`), as the harness owns the cluster of a run, and answers requests over a Unix socket
(`protocol`). Its directory is a run's directory with a journal, so that `harrow heal` works on it.
"""
