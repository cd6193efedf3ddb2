"""Recognises, reads and judges histories of other tools, by Harrow's kernels or by Jepsen's own kinds of anomaly.

`checkers.foreign.check.check_files` is the entry point. `checkers.foreign.formats` turns bytes of any format into
`Event`s and `Malformed` rows, and never raises for what a file holds.
"""
