"""Reads on which conditions faults waited: the metadata had shown an ISR shrink before a sample does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from common.wording import plural

_ISR_AT_MOST = "isr-at-most"


def isr_conditions(directory: Path) -> Mapping[int, str]:
    """Entry of the run's schedule → of how small an ISR it waited for, as a clause; nothing that cannot be read."""
    try:
        entries = json.loads((directory / "schedule.json").read_text(encoding="utf-8"))["entries"]
        return {
            int(entry["entry"]): (
                f"the ISR of partition {int(entry['when']['partition'])} had at most"
                f" {plural(int(entry['when']['value']), 'member')}"
            )
            for entry in entries
            if entry.get("when") and entry["when"]["condition"] == _ISR_AT_MOST
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}
