"""Checks what brokers do with requests that controllers serve: they pass them on with time to answer (P-55).

A broker that gives up an attempt too soon has the controller do what was asked, and tells its client that nobody knows.
A controller that may keep an election waiting for longer than the administrator does holds it for nobody.
"""

from __future__ import annotations

from broker.core.messages import ElectLeadersRequest
from broker.core.messages.refusals import ADMINISTRATION
from broker.core.ports.events import Send
from simulation.invariants.administration.asked import without_timeout
from simulation.invariants.knowledge import Knowledge
from simulation.invariants.properties import Violation


def sent(known: Knowledge, broker_id: int, effect: Send) -> None:
    """P-55, if a broker sends what a client has asked it for."""
    request = effect.request
    if not isinstance(request, ADMINISTRATION):
        return
    now_ms = known.clock_ms(broker_id)
    plain = without_timeout(request)
    limits = []
    for (asked_of, _), (asked, arrived_ms) in known.administered.forwarded.items():
        if asked_of == broker_id and without_timeout(asked) == plain:
            patience_ms = getattr(asked, "timeout_ms", 0)
            left_ms = max(1, arrived_ms + patience_ms + known.settings.request_timeout_ms - now_ms)
            limits.append((min(known.settings.request_timeout_ms, left_ms), min(patience_ms, left_ms)))
    if not limits:
        return  # for a topic that the broker itself needs
    if all(effect.timeout_ms < attempt_ms for attempt_ms, _ in limits):
        raise Violation(
            "P-55",
            f"broker {broker_id} gives controller {effect.to} {effect.timeout_ms} ms to answer {request}; expected "
            f"{min(attempt_ms for attempt_ms, _ in limits)} ms",
        )
    if isinstance(request, ElectLeadersRequest) and all(request.timeout_ms > patient_ms for _, patient_ms in limits):
        raise Violation(
            "P-55",
            f"broker {broker_id} lets controller {effect.to} wait for {request.timeout_ms} ms with {request}, whose "
            f"client waits for {max(patient_ms for _, patient_ms in limits)} ms",
        )
