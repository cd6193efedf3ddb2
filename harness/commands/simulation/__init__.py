"""The commands `harrow sim`, `shrink`, `replay` and `known-flaws`."""
