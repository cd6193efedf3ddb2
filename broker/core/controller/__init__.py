"""The controller: a replicated state machine over the metadata log that decides who leads what."""
