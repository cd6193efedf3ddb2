"""Histories that other tools wrote: recognised, read, and judged by our kernels or by Jepsen's own kinds.

`checkers.foreign.check.check_files` is the way in. Each format has one module that turns bytes into `Event`s and
`Malformed` rows, and never raises for what a file holds.
"""
