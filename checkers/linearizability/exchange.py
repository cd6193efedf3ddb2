"""Converts a verdict to JSON, which leaves a Spark task and which the picture of a violation is drawn from.

    {"outcome", "reason", "kinds", "counts", "evidence": [
        {"key", "model", "initial", "stuck", "window", "left_out",
         "operations": [{"process", "invoked", "completed", "status", "function", "argument", "result", "text"}],
         "orders": [[{"operation", "state"}]]}]}

Keys, arguments, results and states are texts for people; `operation`, `stuck` and `window` are indices into
`operations`; `completed` is null for an operation that never returned.
"""

from __future__ import annotations

from typing import Any, Final

from checkers.linearizability.evidence import state_text
from checkers.linearizability.operations import UNKNOWN, Evidence, LinearizabilityVerdict, Operation

_READING: Final = frozenset({"read", "get", "dequeue", "contains", "end", "append", "cas", "txn"})


def verdict_json(verdict: LinearizabilityVerdict) -> dict[str, Any]:
    """Return a verdict as JSON."""
    return {
        "outcome": verdict.outcome,
        "reason": verdict.reason,
        "kinds": list(verdict.kinds),
        "counts": dict(verdict.counts),
        "evidence": [evidence_json(evidence) for evidence in verdict.evidence],
    }


def evidence_json(evidence: Evidence) -> dict[str, Any]:
    """Return evidence as JSON."""
    return {
        "key": None if evidence.key is None else str(evidence.key),
        "model": evidence.model,
        "initial": evidence.initial,
        "stuck": evidence.stuck,
        "window": list(evidence.window),
        "left_out": evidence.left_out,
        "operations": [_operation_json(operation) for operation in evidence.operations],
        "orders": [[{"operation": step.operation, "state": step.state} for step in order] for order in evidence.orders],
    }


def _operation_json(operation: Operation) -> dict[str, Any]:
    return {
        "process": operation.process,
        "invoked": operation.invoked_ns,
        "completed": operation.completed_ns,
        "status": operation.status,
        "function": operation.function,
        "argument": None if operation.argument is None else state_text(operation.argument),
        "result": None if operation.result is UNKNOWN else state_text(operation.result),
        "text": described(operation),
    }


def described(operation: Operation) -> str:
    """Return an operation in a few words: `cas (1, 2) → False`."""
    argument = "" if operation.argument is None else f" {state_text(operation.argument)}"
    has_result = (
        operation.completed_ns is not None and operation.function in _READING and operation.result is not UNKNOWN
    )
    return f"{operation.function}{argument}" + (f" → {state_text(operation.result)}" if has_result else "")
