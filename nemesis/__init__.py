"""Faults, schedules of faults, and the nemesis that fires them."""
