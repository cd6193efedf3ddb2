"""Groups what went wrong in a run into incidents, and finds the cause of each by evidence."""

from __future__ import annotations

from incidents.diagnosis import diagnose
from incidents.model import Cause, Incident, Span, incidents_of

__all__ = ["Cause", "Incident", "Span", "diagnose", "incidents_of"]
