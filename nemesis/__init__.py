"""Faults and the schedules that fire them."""
