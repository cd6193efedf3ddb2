"""The environment `ssh`: nodes are machines that are reached by SSH, given by an inventory or made as VMs for the run.

On each machine an *agent* (`agent`) runs for as long as the harness is connected. It is the environment `local` for one
node: the same keeper, disks and clocks, steered from afar. When the connection ends it undoes all that it did.
"""
