"""Bounded exhaustive search: every order of events of a small model, with the broker cores that run for real.

`spec` specifies a model, `model.local` takes one step of one node (and caches it), `model.cluster` composes the steps
of all nodes, `properties` checks, `search` explores breadth first, so that the first violation is a shortest one.
`docs/reference/exhaustive.md` explains what is abstracted away, and why that is sound.
"""
