"""The broker's core: broker and controller as one deterministic state machine that does no I/O."""
