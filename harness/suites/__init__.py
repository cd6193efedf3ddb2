"""Suites: many runs from one file, each in a process of its own, judged by one Spark session, told on one page."""
