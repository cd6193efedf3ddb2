"""Says how often each mark fired in a sweep, and which of the others cannot fire in the simulated world, and why.

A mark that never fires is a gap of the search, unless it is listed here.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.core.ports.marks import declared
from broker.zookeeper.choices import ZOOKEEPER_GENERATIONS

ZOOKEEPER = "zookeeper: "
"""How the marks of the designs on ZooKeeper begin; no other broker emits them."""

_MISTAKEN_CLIENT = "only a mistaken or hostile client asks for that; those of the simulator do not"
_MISTAKEN_BROKER = "only a mistaken broker or controller does that"
_BIT_ROT = "only bytes that change on the disk lead to it, or a mistaken peer; simulated disks lose and tear them"
_HEALED = "consumers read from followers when all is healed alone, and none lags then"
_BEFORE_K4 = "before K4 alone: with eligible replicas nobody is in the ISR when nobody leads, and few commit nothing"
_EPOCHS_FIRST = "the comparison of epochs comes before it and finds the same (FE-6)"
_UNFENCED_AT_ONCE = "a running broker has what its registration needs: its next heartbeat ends the fencing (HB-2)"
_SHORT = "comes after minutes or days; a simulation is one or two minutes long"

WITH_REASON: Mapping[str, str] = {
    "AlterPartition refused: its epochs are ahead of the controller (AP-4)": _MISTAKEN_BROKER,
    "AlterPartition refused: not the leader, or no sensible ISR (AP-5, AP-7)": _MISTAKEN_BROKER,
    "AlterPartition: nothing changes (AP-9)": "a leader that names the present epoch asks for another ISR than it has",
    "ElectLeaders refused: no such partition": _MISTAKEN_CLIENT,
    "ListOffsets refused: the searches before it in the same request took too long": _MISTAKEN_CLIENT,
    "controlled shutdown: it still leads (HB-2)": "a controller moves all leaderships as the shutdown begins (HB-3)",
    "election: the last leader leads again after there was none": _BEFORE_K4,
    "fencing: a broker learns that it is fenced (BL-6)": _UNFENCED_AT_ONCE,
    "fencing: a broker that was fenced is not any more (BL-6)": _UNFENCED_AT_ONCE,
    "fetch refused: the last fetched epoch is above all that are known (FE-6)": (
        "a log has no later epoch than its replica follows, which is compared first (FE-2)"
    ),
    "fetch: a consumer waits at a follower whose high watermark lags (FE-14)": _HEALED,
    "groups: committed offsets are deleted that nobody has needed for long (KIP-211)": _SHORT,
    "heartbeat refused: the broker is not registered (HB-1)": "a broker hears of its registration once it is committed",
    "heartbeat: unfenced -> fenced (HB-2)": "a broker that is not fenced never asks to be",
    "metadata copy: dropped, to be fetched anew": _BIT_ROT,
    "metadata log: a fetch of another cluster is refused (QU-3)": "a simulation has one cluster",
    "metadata log: what the leader sent does not fit": _MISTAKEN_BROKER,
    "metadata snapshot: one on the disk cannot be read": _BIT_ROT,
    "metadata: what the controller sent does not fit": _MISTAKEN_BROKER,
    "out of range: by now the log fits (TR-8)": _EPOCHS_FIRST,
    "out of range: the leader's log ends earlier, cut (TR-8)": _EPOCHS_FIRST,
    "produce refused: a wrong checksum (PR-1)": _MISTAKEN_CLIENT,
    "produce refused: after the append, the ISR became too small (PR-6)": _BEFORE_K4,
    "produce refused: an old duplicate (PR-5)": "clients send a batch again before the next five",
    "produce refused: an old producer epoch (PR-5)": "no client takes over the producer id of another",
    "produce refused: no such acks (PR-1)": _MISTAKEN_CLIENT,
    "produce refused: not for a client to send, or without a key (PR-1)": _MISTAKEN_CLIENT,
    "produce: the client has gone while it waited": "the model clients keep their connections",
    "quorum fetch refused: the epoch is not known yet (QU-3)": "a voter fetches from the leader of its own epoch",
    "reassignment refused: it would change the replication factor": _MISTAKEN_CLIENT,
    "reassignment refused: no sensible target (RA-1)": _MISTAKEN_CLIENT,
    "replica fetch: what the leader sent does not fit (TR-6)": _MISTAKEN_BROKER,
    "unclean recovery: the last known leader is elected (UR-4 in K4)": "of the version K4 alone",
}
"""Marks that a sweep of K5 cannot be expected to fire, by name. Tests of the broker reach them."""


def mark_lines(fired: Mapping[str, int], seeds: int, generation: object = None) -> list[str]:
    """The table, one line per mark: first those that never fired, those with a reason last among them."""
    on_zookeeper = generation in ZOOKEEPER_GENERATIONS
    names = sorted({*(name for name in declared() if on_zookeeper or not name.startswith(ZOOKEEPER)), *fired})
    if not names or not seeds:
        return []
    width = max(map(len, names))
    never = sorted((name for name in names if not fired.get(name)), key=lambda name: (name in WITH_REASON, name))
    lines = [f"marks: {len(names) - len(never)} of {len(names)} fired"]
    lines += [f"  {name:<{width}}  never{f': {WITH_REASON[name]}' if name in WITH_REASON else ''}" for name in never]
    lines += [
        f"  {name:<{width}}  {fired[name]:>10,}  {fired[name] / seeds:8.2f} a seed"
        for name in sorted(set(names) - set(never), key=lambda name: fired[name])
    ]
    return lines
