"""The phases of a run, in order: set-up, main, recovery, final, tear-down."""
