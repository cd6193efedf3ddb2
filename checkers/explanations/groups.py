"""Explains the anomalies of consumer groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from checkers.explanations.wording import Details, Row, by, invoked, seconds


def _lost_commit(row: Row, details: Details) -> str:
    last = details.get("last_acknowledged", {})
    asked = "" if row["broker"] is None else f" broker {row['broker']}"
    return (
        f"Process {row['process']} asked{asked} at {invoked(details)} for the committed offset of "
        f"{_whose(details)} and got {_offset(details)}, although process {last.get('process')} had its commit of "
        f"{last.get('offset')} acknowledged{by(last.get('node'))} at {seconds(last.get('completed_ns'))}, and no "
        "commit that may have come after that explains the answer."
    )


def _committed_offset_regression(row: Row, details: Details) -> str:
    earlier = details.get("earlier", {})
    since = seconds(earlier.get("completed_ns"))
    if details.get("generation") is not None:
        return (
            f"Process {row['process']}, a member of generation {details['generation']}, had its commit of "
            f"{_offset(details)} for {_whose(details)} acknowledged{by(row['broker'])} at {seconds(row['at_ns'])}, "
            f"although generation {earlier.get('generation')} had begun and had {earlier.get('offset')} acknowledged "
            f"at {since}: the coordinator had to refuse it."
        )
    return (
        f"The committed offset of {_whose(details)} was {earlier.get('offset')} by {since}, as process "
        f"{earlier.get('process')} was answered{by(earlier.get('node'))}; process {row['process']} asked after that, "
        f"at {invoked(details)}, and got {_offset(details)}{by(row['broker'])}. No commit in between can "
        "have set that."
    )


def _double_ownership(row: Row, details: Details) -> str:
    earlier = details.get("earlier", {})
    return (
        f"In generation {details.get('generation')} two members owned {_whose(details)} at once: "
        f"{earlier.get('member')} until {seconds(earlier.get('until_ns'))}, and {details.get('member')} from "
        f"{seconds(row['at_ns'])} on."
    )


def _whose(details: Details) -> str:
    return f"group {details.get('group')} for {details.get('of_topic')}-{details.get('of_partition')}"


def _offset(details: Details) -> str:
    offset = details.get("offset")
    return "no offset" if offset is None or offset < 0 else str(offset)


GROUP_EXPLANATIONS: Mapping[str, Callable[[Row, Details], str]] = {
    "lost-commit": _lost_commit,
    "committed-offset-regression": _committed_offset_regression,
    "double-ownership": _double_ownership,
}
