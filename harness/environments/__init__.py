"""Where clusters run: what an environment offers, and the ones there are."""
