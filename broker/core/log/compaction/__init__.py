"""Removes from a log the records that later ones of the same key have replaced (`cleanup.policy=compact`)."""
