"""The observer, which checks the protocol's properties in every step of a simulation."""
