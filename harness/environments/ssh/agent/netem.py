"""Shapes links of a machine with the kernel's netem, for outgoing and incoming packets by address.

Each interface gets one classful queue; each shape on it gets one class with a netem, and filters direct the packets of
the addresses there. Incoming packets are redirected to an ifb interface first, with the same setup. The control channel
(the SSH server's port, to and from the harness) is exempt.
"""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nemesis.capabilities.shapes import Shape

_HANDLE = "4e0:"
_PACKET_BYTES = 1_500
_QUEUE_S = 1.0
_OVERTAKEN_MS = 20.0
"""The extra delay of reordered packets."""


@dataclass
class Netem:
    """The shapes of one run on this machine. Errors are `OSError`."""

    incoming: str  # name of the interface for incoming packets
    harness: str
    ssh_port: int
    _queues: list[str] = field(default_factory=list)  # our queues, as tc names them
    _routes: dict[str, str] = field(default_factory=dict)  # address → outgoing interface
    _has_incoming: bool = False

    def set(self, outgoing: Mapping[str, Shape], incoming: Mapping[str, Shape]) -> None:
        """Set the shapes of packets to, and from, these addresses."""
        lines = [f"qdisc del {queue}" for queue in self._queues]
        queues = []
        for interface, shapes in self._by_interface(outgoing).items():
            queues.append(f"dev {interface} root")
            lines += _tree(interface, "dst", shapes, self._spared(interface, _HANDLE, "sport", f"flowid {_HANDLE}0"))
        for interface, shapes in self._by_interface(incoming).items():
            self._make_incoming()
            queues += [f"dev {interface} ingress", f"dev {self.incoming} root"]
            lines.append(f"qdisc add dev {interface} handle ffff: ingress")
            lines.append(self._spared(interface, "ffff:", "dport", "action pass"))
            lines += [
                f"filter add dev {interface} parent ffff: protocol ip prio 2 u32 match ip src {address}/32 "
                f"action mirred egress redirect dev {self.incoming}"
                for address in shapes
            ]
            lines += _tree(self.incoming, "src", shapes)
        try:
            _tc(lines)
        except OSError:  # some of it may have been applied
            self._queues += queues
            self.clear()
            raise
        self._queues = queues

    def clear(self) -> None:
        """Remove all our queues. Safe when there are none."""
        for queue in self._queues:
            subprocess.run(["tc", "qdisc", "del", *queue.split()], capture_output=True, check=False)
        self._queues = []
        subprocess.run(["ip", "link", "del", self.incoming], capture_output=True, check=False)
        self._has_incoming = False

    def clear_all(self) -> None:
        """Remove Harrow's queues on every interface, also those of another process: for a run that has died."""
        listed = json.loads(_run(["tc", "-j", "qdisc", "show"]) or "[]")
        ours = [one["dev"] for one in listed if one.get("handle") == _HANDLE and one.get("root")]
        self._queues = [f"dev {interface} {where}" for interface in ours for where in ("root", "ingress")]
        self.clear()

    def _make_incoming(self) -> None:
        if not self._has_incoming:
            _run(["ip", "link", "add", self.incoming, "type", "ifb"])
            self._has_incoming = True
            _run(["ip", "link", "set", self.incoming, "up"])

    def _by_interface(self, shapes: Mapping[str, Shape]) -> Mapping[str, Mapping[str, Shape]]:
        found: defaultdict[str, dict[str, Shape]] = defaultdict(dict)
        for address, shape in shapes.items():
            if arguments(shape):
                if address not in self._routes:
                    (route,) = json.loads(_run(["ip", "-j", "route", "get", address]))
                    self._routes[address] = route["dev"]
                found[self._routes[address]][address] = shape
        return found

    def _spared(self, interface: str, parent: str, port: str, then: str) -> str:
        end = "dst" if port == "sport" else "src"
        return (
            f"filter add dev {interface} parent {parent} protocol ip prio 1 u32 match ip {end} {self.harness}/32 "
            f"match ip protocol 6 0xff match ip {port} {self.ssh_port} 0xffff {then}"
        )


def arguments(shape: Shape) -> str:
    """The arguments of netem for a shape."""
    delay_ms, words = shape.delay_ms, []
    if shape.reorder_percent:
        delay_ms += _OVERTAKEN_MS
    if delay_ms or shape.jitter_ms:
        words.append(f"delay {delay_ms:g}ms" + (f" {shape.jitter_ms:g}ms" if shape.jitter_ms else ""))
    if shape.reorder_percent:  # netem's percentage is of the packets sent at once
        words.append(f"reorder {100 - shape.reorder_percent:g}%")
    if shape.loss_percent:
        words.append(f"loss {shape.loss_percent:g}%")
    if shape.duplicate_percent:
        words.append(f"duplicate {shape.duplicate_percent:g}%")
    if shape.kbit_per_s:
        room = max(2, round(shape.kbit_per_s * 1000 / 8 * _QUEUE_S / _PACKET_BYTES))
        words.append(f"rate {shape.kbit_per_s:g}kbit limit {room}")
    elif shape.jitter_ms and not shape.reorder_percent:
        words.append("rate 10gbit")  # with a rate netem sends packets in their order, whatever their delays
    return " ".join(words)


def _tree(interface: str, end: str, shapes: Mapping[str, Shape], *first: str) -> Sequence[str]:
    lines = [f"qdisc add dev {interface} root handle {_HANDLE} htb", *first]
    for number, (words, addresses) in enumerate(sorted(_by_arguments(shapes).items()), 1):
        lines.append(f"class add dev {interface} parent {_HANDLE} classid {_HANDLE}{number} htb rate 10gbit")
        lines.append(f"qdisc add dev {interface} parent {_HANDLE}{number} netem {words}")
        lines += [
            f"filter add dev {interface} parent {_HANDLE} protocol ip prio 2 u32 match ip {end} {address}/32 "
            f"flowid {_HANDLE}{number}"
            for address in addresses
        ]
    return lines


def _by_arguments(shapes: Mapping[str, Shape]) -> Mapping[str, Sequence[str]]:
    addresses = defaultdict(list)
    for address, shape in sorted(shapes.items()):
        if words := arguments(shape):
            addresses[words].append(address)
    return addresses


def _tc(lines: Sequence[str]) -> None:
    if lines:
        _run(["tc", "-batch", "-"], "\n".join(lines) + "\n")


def _run(command: Sequence[str], text: str = "") -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(0, f"{command[0]} refused: {' '.join(done.stderr.split())}")
    return done.stdout
