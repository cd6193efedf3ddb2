"""Screening: finds the partitions and values of a history that need a full check, without sorting it by time.

A correct system leaves ordinary records behind: each offset holds one value, sent once, acknowledged there, read there
by the final reads, and equal in the logs of all replicas. `stretches` finds what is not ordinary in stretches of
offsets; `on_spark` and `in_driver` bring the rows to it; `rows_to_check` selects what it suspects. The anomalies are
then functions of what is not ordinary. Screening may report an ordinary record as suspect, never a suspect record as
ordinary.
"""
