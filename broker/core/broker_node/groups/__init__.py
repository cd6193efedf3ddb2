"""The group coordinator: consumer groups of the classic protocol, replicated through the offsets topic (KIP-62 …)."""
