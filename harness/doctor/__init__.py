"""Probes what this machine can and cannot do: `harrow doctor`."""
