"""Where runs are kept, and the journal by which an interrupted one is healed."""
