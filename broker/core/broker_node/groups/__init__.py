"""The group coordinator: classic consumer groups, replicated through the offsets topic (KIP-62 …)."""
