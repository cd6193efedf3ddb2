"""The controller: a replicated state machine over the metadata log that assigns leaders and ISRs."""
