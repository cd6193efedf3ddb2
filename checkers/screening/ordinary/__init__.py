"""Recognises runs in which nothing can be an anomaly, from their files, in Spark tasks without a plan.

A run is *ordinary* if everything that an anomaly needs is ruled out, by rules that are at least as strict as the
anomaly's own: its verdict then follows from its small tables and from numbers, which the same task counts. All other
runs are checked as frames (`checkers.relations`), with the same result as if nobody had looked before. A run with rows
of objects or of groups, with deleted topics, or with files that cannot be read here is never ordinary.
"""
