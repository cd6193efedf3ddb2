"""The environment `ssh`: nodes are machines reached by SSH, from an inventory or created as VMs for the run.

On each machine an *agent* (`agent`) runs while the harness is connected. It is the environment `local` for one node:
the same supervisor, disks and clocks, controlled remotely. When the connection ends it undoes all its changes.
"""
