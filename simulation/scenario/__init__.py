"""One simulated test: the configuration that a seed draws, and the phases from set-up to the final reads."""
