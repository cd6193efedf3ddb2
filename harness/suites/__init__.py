"""Suites: many runs from one file, each in its own process, checked by one Spark session, reported on one page."""
