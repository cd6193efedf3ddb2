"""Systems under test: adapters that say how a broker is configured, started, asked and read."""
