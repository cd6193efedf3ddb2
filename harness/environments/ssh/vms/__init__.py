"""Machines for the environment `ssh` that are made on this one: QEMU VMs from a template, with or without root.

`image` makes what they boot from out of Debian's packages, `template` boots one and keeps its memory, `vm` runs one,
`fleet` runs those of a run. Each step is kept in the user's cache, by a name that changes with what went into it.
"""
