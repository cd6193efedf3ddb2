"""The commands `harrow sim`, `shrink` and `known-flaws`."""
