"""Systems under test: adapters that configure, start and query a broker, and read its log."""
