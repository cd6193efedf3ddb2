"""Schemas of what a broker tells its controller about itself."""
