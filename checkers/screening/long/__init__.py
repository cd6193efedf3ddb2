"""Recognises long runs that need no full check, in tasks that get ranges of files and exchange what belongs together.

`chunks` divides a run; `reading` reads a chunk, and writes blocks of narrow columns; `groups` screens what lies at the
same offsets, wherever it was read; `answers` judges polls and samples; `recognise` puts together what all tasks found.
The rules are those of `checkers.screening.stretches` and `checkers.screening.ordinary`.
"""
