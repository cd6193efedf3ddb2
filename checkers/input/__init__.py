"""Reads histories: tables of runs and data sets, local or remote; validates rows; interprets the facts of a run."""
