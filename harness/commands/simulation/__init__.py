"""The commands `harrow sim`, `shrink`, `replay` and `zoo`."""
