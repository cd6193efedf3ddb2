"""Bounded exhaustive search: every order of events of a small world, with the broker cores that run for real.

`spec` says what a small world is, `local` lets one node take one step (and remembers it), `cluster` composes the steps of
all nodes, `properties` judges, `search` walks breadth first, so that the first violation is a shortest one.
`docs/exhaustive.md` explains what is abstracted away, and why that is sound.
"""
