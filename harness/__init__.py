"""The command line, the specification, the runner, the store, environments and systems under test."""
