"""Screening: which partitions and values of a long history deserve a close look, told without sorting it in time.

What a correct system leaves behind is dull: at each offset one value, sent once, acknowledged there, read there by the
final reads, and the same in the logs of all replicas. `kernel` finds what is not dull in stretches of offsets;
`screen` brings the rows there, and puts together what was found. The anomalies are then functions of what is not dull.
Screening may take a dull thing for a suspect one, never the other way round.
"""
