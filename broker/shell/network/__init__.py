"""Sockets: listeners, connections to other nodes, frames."""
