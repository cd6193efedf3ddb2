"""The environment `local`: nodes are processes of this machine, with faults that need as little of it as possible."""
