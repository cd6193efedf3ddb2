"""The command line, run specifications, the runner, the store, environments and systems under test."""
