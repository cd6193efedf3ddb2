"""Connections to hosts: SSH, the installed package, and RPC with the agent."""
