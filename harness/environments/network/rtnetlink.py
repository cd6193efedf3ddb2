"""Configures interfaces, addresses, routes and rules over rtnetlink (RFC 3549, rtnetlink(7)).

Written by hand so that neither iproute2 nor nftables needs to be installed. A `Wire` stays in the network namespace in
which it was created, even if its process enters another. The kernel acknowledges every request; an error is an
`OSError`.
"""

from __future__ import annotations

import os
import socket
import struct

_NLM_F_REQUEST, _NLM_F_ACK, _NLM_F_EXCL, _NLM_F_CREATE = 0x1, 0x4, 0x200, 0x400
_NLMSG_ERROR = 2
_RTM_NEWLINK, _RTM_NEWADDR, _RTM_NEWROUTE, _RTM_NEWRULE, _RTM_DELRULE = 16, 20, 24, 32, 33
_NAMES = {
    _RTM_NEWLINK: "RTM_NEWLINK",
    _RTM_NEWADDR: "RTM_NEWADDR",
    _RTM_NEWROUTE: "RTM_NEWROUTE",
    _RTM_NEWRULE: "RTM_NEWRULE",
    _RTM_DELRULE: "RTM_DELRULE",
}
_NLA_F_NESTED = 0x8000

_IFLA_IFNAME, _IFLA_LINKINFO, _IFLA_NET_NS_FD = 3, 18, 28
_IFLA_INFO_KIND, _IFLA_INFO_DATA, _VETH_INFO_PEER = 1, 2, 1
_IFF_UP = 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RTA_DST, _RTA_OIF, _RTA_GATEWAY = 1, 4, 5
_RTNH_F_ONLINK = 4
_RT_TABLE_MAIN, _RTPROT_STATIC, _RT_SCOPE_UNIVERSE, _RT_SCOPE_LINK, _RTN_UNICAST = 254, 4, 0, 253, 1
_FRA_DST, _FRA_IIFNAME, _FRA_PRIORITY = 1, 3, 6
_FR_ACT_TO_TABLE, _FR_ACT_BLACKHOLE = 1, 6

_INTERFACE = struct.Struct("BxHiII")
_ADDRESS = struct.Struct("BBBBi")
_ROUTE = struct.Struct("BBBBBBBBI")
_RULE = _ROUTE  # struct fib_rule_hdr has the same layout


def _attribute(kind: int, payload: bytes) -> bytes:
    length = 4 + len(payload)
    return struct.pack("HH", length, kind) + payload + bytes(-length % 4)


def _text(kind: int, value: str) -> bytes:
    return _attribute(kind, value.encode() + b"\0")


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack("I", value))


def _ip(kind: int, address: str) -> bytes:
    return _attribute(kind, socket.inet_aton(address))


class Wire:
    """A netlink socket in the namespace in which it is created."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self._socket.bind((0, 0))
        self._sequence = 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def add_pair(self, name: str, peer_name: str, peer_namespace: int) -> None:
        """Add a pair of virtual Ethernet interfaces, one end here, the other in the namespace of the descriptor."""
        peer = _INTERFACE.pack(0, 0, 0, 0, 0) + _text(_IFLA_IFNAME, peer_name)
        peer += _number(_IFLA_NET_NS_FD, peer_namespace)
        data = _attribute(_VETH_INFO_PEER | _NLA_F_NESTED, peer)
        kind = _text(_IFLA_INFO_KIND, "veth") + _attribute(_IFLA_INFO_DATA | _NLA_F_NESTED, data)
        body = _INTERFACE.pack(0, 0, 0, 0, 0) + _text(_IFLA_IFNAME, name)
        self._ask(_RTM_NEWLINK, _NLM_F_CREATE | _NLM_F_EXCL, body + _attribute(_IFLA_LINKINFO | _NLA_F_NESTED, kind))

    def bring_up(self, index: int) -> None:
        """Bring an interface up."""
        self._ask(_RTM_NEWLINK, 0, _INTERFACE.pack(0, 0, index, _IFF_UP, _IFF_UP))

    def add_address(self, index: int, address: str) -> None:
        """Add an address to an interface (/32, no network)."""
        body = _ADDRESS.pack(socket.AF_INET, 32, 0, _RT_SCOPE_UNIVERSE, index)
        body += _ip(_IFA_LOCAL, address) + _ip(_IFA_ADDRESS, address)
        self._ask(_RTM_NEWADDR, _NLM_F_CREATE | _NLM_F_EXCL, body)

    def add_host_route(self, address: str, index: int) -> None:
        """Route one address through an interface."""
        body = _route(32, _RT_SCOPE_LINK, 0) + _ip(_RTA_DST, address) + _number(_RTA_OIF, index)
        self._ask(_RTM_NEWROUTE, _NLM_F_CREATE | _NLM_F_EXCL, body)

    def add_default_route(self, gateway: str, index: int) -> None:
        """Route everything else through a gateway on the other end of an interface."""
        body = _route(0, _RT_SCOPE_UNIVERSE, _RTNH_F_ONLINK) + _ip(_RTA_GATEWAY, gateway) + _number(_RTA_OIF, index)
        self._ask(_RTM_NEWROUTE, _NLM_F_CREATE | _NLM_F_EXCL, body)

    def add_black_hole(self, incoming: str, target: str, priority: int) -> None:
        """Silently drop packets for `target` that come in by the interface named `incoming`."""
        self._ask(_RTM_NEWRULE, _NLM_F_CREATE | _NLM_F_EXCL, _black_hole(incoming, target, priority))

    def remove_black_hole(self, incoming: str, target: str, priority: int) -> None:
        """Undo `add_black_hole`."""
        self._ask(_RTM_DELRULE, 0, _black_hole(incoming, target, priority))

    def add_shaper_route(self, incoming: str, target: str, priority: int, table: int) -> None:
        """Route packets for `target` that come in by the interface named `incoming` by another table."""
        self._ask(_RTM_NEWRULE, _NLM_F_CREATE | _NLM_F_EXCL, _shaper_rule(incoming, target, priority, table))

    def remove_shaper_route(self, incoming: str, target: str, priority: int, table: int) -> None:
        """Undo `add_shaper_route`."""
        self._ask(_RTM_DELRULE, 0, _shaper_rule(incoming, target, priority, table))

    def add_route_into(self, index: int, table: int) -> None:
        """Route everything in a table to an interface."""
        header = _ROUTE.pack(socket.AF_INET, 0, 0, 0, table, _RTPROT_STATIC, _RT_SCOPE_LINK, _RTN_UNICAST, 0)
        self._ask(_RTM_NEWROUTE, _NLM_F_CREATE | _NLM_F_EXCL, header + _number(_RTA_OIF, index))

    def _ask(self, kind: int, flags: int, body: bytes) -> None:
        self._sequence += 1
        header = struct.pack("IHHII", 16 + len(body), kind, _NLM_F_REQUEST | _NLM_F_ACK | flags, self._sequence, 0)
        self._socket.send(header + body)
        answer = self._socket.recv(65536)
        _, answer_kind, _, sequence, _, error = struct.unpack_from("IHHIIi", answer)
        if answer_kind != _NLMSG_ERROR or sequence != self._sequence:
            raise OSError(0, f"expected the acknowledgement of netlink request {self._sequence}, found {answer!r}")
        if error:
            raise OSError(-error, os.strerror(-error), f"netlink {_NAMES[kind]}")


def _route(prefix_length: int, scope: int, flags: int) -> bytes:
    return _ROUTE.pack(socket.AF_INET, prefix_length, 0, 0, _RT_TABLE_MAIN, _RTPROT_STATIC, scope, _RTN_UNICAST, flags)


def _black_hole(incoming: str, target: str, priority: int) -> bytes:
    return _rule(incoming, target, priority, 0, _FR_ACT_BLACKHOLE)


def _shaper_rule(incoming: str, target: str, priority: int, table: int) -> bytes:
    return _rule(incoming, target, priority, table, _FR_ACT_TO_TABLE)


def _rule(incoming: str, target: str, priority: int, table: int, action: int) -> bytes:
    header = _RULE.pack(socket.AF_INET, 32, 0, 0, table, 0, 0, action, 0)
    return header + _ip(_FRA_DST, target) + _text(_FRA_IIFNAME, incoming) + _number(_FRA_PRIORITY, priority)
