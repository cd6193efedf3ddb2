"""Formats numbers, times, nodes and lists for all reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

CLIENTS = 0
"""The endpoint of all clients, as in `faults.targets`."""
FIRST_CONTROLLER = 100
"""The number of the first controller; the others follow."""
FIRST_SERVER = 200
"""The number of the first server of a ZooKeeper ensemble; the others follow."""
ENSEMBLE = 900
"""The ZooKeeper ensemble of a simulated cluster, one node of its network."""


def count(number: int) -> str:
    """Format an integer with separators: 12,345."""
    return f"{number:,}"


def plural(number: int, noun: str, nouns: str | None = None) -> str:
    """Format a number of things: "1 fault", "3 faults"."""
    return f"{count(number)} {noun if number == 1 else nouns or noun + 's'}"


def moment(at_ns: int | None) -> str:
    """Format a time of the run's clock: 34.218 s."""
    return "unknown" if at_ns is None or at_ns < 0 else f"{at_ns / 1e9:,.3f} s"


def duration(span_ns: int | None) -> str:
    """Format a length of time with two or three digits: 82 ms, 3.25 s, 2 min 05 s."""
    if span_ns is None or span_ns < 0:
        return "unknown"
    seconds = span_ns / 1e9
    if seconds < 1:
        return f"{span_ns / 1e6:.0f} ms"
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def labelled(label: str, text: str) -> str:
    """Return a text with a label before it, unless it begins with the label: "P-2: broker 2 has nothing"."""
    return text if text.startswith(label) else f"{label}: {text}"


def node(node_id: int | None) -> str:
    """Name a node: "broker 2", "controller 100", "ZooKeeper server 200", "the clients", "the ensemble"."""
    if node_id is None:
        return "an unknown node"
    if node_id in (CLIENTS, ENSEMBLE):
        return "the clients" if node_id == CLIENTS else "the ensemble"
    if node_id >= FIRST_SERVER:
        return f"ZooKeeper server {node_id}"
    return f"controller {node_id}" if node_id >= FIRST_CONTROLLER else f"broker {node_id}"


def nodes(node_ids: Iterable[int | None] | None) -> str:
    """Name nodes: "brokers 1 and 2"."""
    known = sorted({node_id for node_id in node_ids or () if node_id is not None})
    brokers = [node_id for node_id in known if CLIENTS < node_id < FIRST_CONTROLLER]
    others = [node(node_id) for node_id in known if node_id not in brokers]
    if len(brokers) > 1:
        return enumeration([f"brokers {enumeration([str(broker) for broker in brokers])}", *others])
    return enumeration([node(broker) for broker in brokers] + others) or "no node"


def enumeration(words: Sequence[str]) -> str:
    """Join words as a sentence does: "a, b and c"."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def in_leader_epoch(epoch: int | None) -> str:
    """The end of a clause about a leader: ", leader epoch 5"; empty where there are no leader epochs."""
    return f", leader epoch {epoch}" if epoch is not None and epoch >= 0 else ""


def as_sentence(clause: str) -> str:
    """Begin a clause with a capital letter and end it with a full stop."""
    return f"{capital(clause)}{'' if clause.endswith('.') else '.'}"


def capital(text: str) -> str:
    """Begin a text with a capital letter."""
    return text[:1].upper() + text[1:]


def printable(text: str) -> str:
    """Replace what a terminal would obey or hide: control characters, line ends, marks of writing direction."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def partition_name(topic: object, partition: object) -> str:
    """Name a partition as Kafka does: "events-0"; "the run as a whole" if neither is given."""
    if topic is None:
        return "the run as a whole"
    return f"{topic}" if partition is None else f"{topic}-{partition}"


def set_of(brokers: Sequence[int]) -> str:
    """Return the brokers as a list in brackets: "[1, 3]"."""
    return f"[{', '.join(str(broker) for broker in brokers)}]"
