"""Reduces a failing simulation to a smaller one."""
