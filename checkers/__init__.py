"""Finds anomalies in histories and forms verdicts, on Spark. `checkers.check.check` is the entry point."""
