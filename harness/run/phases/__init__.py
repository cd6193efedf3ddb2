"""The phases of a run, in their order: set-up, main, recovery, final, tear-down."""
