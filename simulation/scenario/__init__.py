"""One simulated test: what a seed decides, and what happens from set-up to the last read."""
