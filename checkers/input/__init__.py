"""Reads histories: tables of runs and data sets, local or remote; which rows are well-formed; the facts of a run."""
