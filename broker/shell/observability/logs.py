"""Configures a node's log: one line per event on standard error, `12:00:01.234 INFO  text`, time in UTC."""

from __future__ import annotations

import logging
import sys
import time


def configure() -> None:
    """Send all log records of the process to standard error."""
    formatter = logging.Formatter("%(asctime)s.%(msecs)03d %(levelname)-7s %(message)s", "%H:%M:%S")
    formatter.converter = time.gmtime
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
