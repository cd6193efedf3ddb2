"""Constants that messages share."""

from __future__ import annotations

NO_LEADER = -1
UNKNOWN = -1
"""Unknown offset, epoch or broker epoch."""
