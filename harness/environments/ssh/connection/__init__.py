"""Connections to hosts: their settings, SSH, their features, the installed package, and requests to the agent."""
