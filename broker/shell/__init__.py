"""Runs one node on a real machine: sockets, files, clock, wire codec, settings, admin endpoint."""
