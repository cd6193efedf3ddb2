"""VMs for the environment `ssh`, run by QEMU on this machine from a template, with or without root.

`image` builds a boot image from Debian packages, `template` boots one VM and saves its memory, `vm` runs one VM,
`fleet` runs those of a run. The results are in the user's cache, named by a digest of their inputs.
"""
