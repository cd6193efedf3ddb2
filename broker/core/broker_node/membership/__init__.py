"""The broker and its controller: registration, heartbeats, changes of in-sync replicas."""
