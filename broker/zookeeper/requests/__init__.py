"""Serves clients and followers: the same in both designs."""
