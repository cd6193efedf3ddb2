"""The store browser: a read-only web server on loopback that shows runs, suites and trends."""
