"""Routes shaped links through the user-space shaper (`shaper`): its interface, its process, its routing rules."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import asdict

from harness.environments.machine.helpers.jsonl import receive_line
from harness.environments.machine.helpers.own_python import module_command
from harness.environments.machine.kernel import linux
from harness.environments.network.rtnetlink import Wire
from nemesis.capabilities.cluster import Link
from nemesis.capabilities.shapes import Shape

_INTERFACE = "shaper"
_TABLE = 100
_RULE_PRIORITY = 110  # after the black holes of links that are cut, before the main table
_ANSWER_TIMEOUT_S = 5.0
_REVERSE_PATH_FILTERS = ("all", _INTERFACE)


class ShaperRoute:
    """The shaper and the routes to it. Created in the switch's namespace, by the supervisor."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._rules: set[tuple[str, str]] = set()
        tun = linux.open_tun(_INTERFACE)
        for name in _REVERSE_PATH_FILTERS:  # packets return by another interface
            linux.write_setting(f"/proc/sys/net/ipv4/conf/{name}/rp_filter", "0")
        index = socket.if_nametoindex(_INTERFACE)
        wire.bring_up(index)
        wire.add_route_into(index, _TABLE)
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._control.settimeout(_ANSWER_TIMEOUT_S)
        supervisor = os.getpid()

        def prepare() -> None:
            linux.die_with_parent(signal.SIGKILL)
            if os.getppid() != supervisor:
                os._exit(1)

        with theirs:
            # It ends when our end of its socket closes.
            self._process = subprocess.Popen(
                module_command("harness.environments.network.shaper", str(tun), str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                pass_fds=[tun, theirs.fileno()],
                start_new_session=True,
                preexec_fn=prepare,  # noqa: PLW1509 - this process has one thread
            )
        os.close(tun)

    def set_shapes(self, shapes: Mapping[Link, Shape], port: Mapping[int, str], address: Mapping[int, str]) -> object:
        """Set the shapes of all links; returns counts of affected packets so far, by kind.

        `port` is the name of the switch's interface to each endpoint, `address` the endpoint's address.
        """
        values = [[address[a], address[b], asdict(shape)] for (a, b), shape in shapes.items()]
        self._control.sendall(json.dumps({"shapes": values}).encode() + b"\n")
        line, _ = receive_line(self._control)
        if not line:
            raise OSError(0, "expected an answer of the shaper, found that it died")
        wanted = {(port[a], address[b]) for a, b in shapes}
        for incoming, target in sorted(wanted - self._rules):
            self._wire.add_shaper_route(incoming, target, _RULE_PRIORITY, _TABLE)
            self._rules.add((incoming, target))
        for incoming, target in sorted(self._rules - wanted):
            self._wire.remove_shaper_route(incoming, target, _RULE_PRIORITY, _TABLE)
            self._rules.remove((incoming, target))
        return json.loads(line)
