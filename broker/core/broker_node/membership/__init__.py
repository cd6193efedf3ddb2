"""The broker's traffic with its controllers: registration, heartbeats, ISR changes."""
