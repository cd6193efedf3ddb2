"""Cuts links of a machine by rules of its packet filter (nftables or iptables).

All rules are in a table (nftables) or in chains (iptables) of the run's own, replaced as a whole. Incoming packets are
dropped silently before the kernel looks up their connection, established or not. Packets of the control channel (the
SSH server's port, to and from the harness) pass before any other rule is evaluated.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal


class Nft:
    """Runs commands of nft(8), with the library if it exists, else the program. Not safe for several threads."""

    def __init__(self) -> None:
        self._library = _load()
        self._context = None if self._library is None else self._library.nft_ctx_new(0)
        if self._library is not None:
            self._library.nft_ctx_buffer_output(self._context)
            self._library.nft_ctx_buffer_error(self._context)

    def run(self, text: str) -> str:
        """Run commands atomically; returns their output. Raises `OSError` when they are refused."""
        if self._library is None:
            done = subprocess.run(["nft", "-f", "-"], input=text, capture_output=True, text=True, check=False)
            status, output, errors = done.returncode, done.stdout, done.stderr
        else:
            status = self._library.nft_run_cmd_from_buffer(self._context, text.encode())
            output = self._library.nft_ctx_get_output_buffer(self._context).decode()
            errors = self._library.nft_ctx_get_error_buffer(self._context).decode()
        if status != 0:
            raise OSError(0, f"nft refused: {' '.join(errors.split())}")
        return output


def _load() -> Any:  # noqa: ANN401
    """Load the library and declare the types of its functions (libnftables(3)); None if it is missing."""
    try:
        library = ctypes.CDLL("libnftables.so.1")
    except OSError:
        return None
    library.nft_ctx_new.restype = ctypes.c_void_p
    library.nft_ctx_buffer_output.argtypes = library.nft_ctx_buffer_error.argtypes = [ctypes.c_void_p]
    library.nft_run_cmd_from_buffer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    for name in ("nft_ctx_get_output_buffer", "nft_ctx_get_error_buffer"):
        getattr(library, name).argtypes = [ctypes.c_void_p]
        getattr(library, name).restype = ctypes.c_char_p
    return library


_RESETS = re.compile(r"counter packets (\d+)")
_EARLY = -300  # before connections are tracked


@dataclass(frozen=True)
class FirewallRules:
    """Addresses of the other machines, by the action on their packets."""

    not_from: Sequence[str] = ()  # drop packets from there
    not_to: Sequence[str] = ()  # drop packets to there
    reset_from: Sequence[str] = ()  # answer TCP segments from there with a reset
    reset_to: Sequence[str] = ()  # and those to there


@dataclass
class Firewall:
    """The rules of one run on this machine."""

    kind: Literal["nft", "iptables"]
    name: str  # of the table; of the chains, with a suffix
    harness: str
    ssh_port: int
    _had: int = field(default=0, init=False)  # resets counted by rules that have been replaced
    _counting: bool = field(default=False, init=False)

    @cached_property
    def _nft(self) -> Nft:
        return Nft()

    def set(self, rules: FirewallRules) -> None:
        """Replace the rules. Raises `OSError` when the packet filter refuses."""
        self._had = self.resets()
        self._counting = bool(rules.reset_from or rules.reset_to)
        if self.kind == "nft":
            self._nft.run(self._as_nft(rules))
        else:
            self.clear()
            for line in self._as_iptables(rules):
                _run(["iptables", "-w", *line.split()])

    def resets(self) -> int:
        """How many segments were answered with resets so far."""
        if not self._counting:
            return self._had
        if self.kind == "nft":
            listed = self._nft.run(f"list table inet {self.name}")
            return self._had + sum(int(found) for found in _RESETS.findall(listed))
        return self._had + sum(self._counted(hook) for hook in ("INPUT", "OUTPUT"))

    def clear(self) -> None:
        """Remove all rules. Safe when there are none."""
        if self.kind == "nft":
            self._nft.run(f"table inet {self.name}\ndelete table inet {self.name}\n")
            return
        for table, hook in _HOOKS:
            chain = self._chain(hook)
            for command in (["-D", hook, "-j", chain], ["-F", chain], ["-X", chain]):
                subprocess.run(["iptables", "-w", "-t", table, *command], capture_output=True, check=False)

    def _as_nft(self, rules: FirewallRules) -> str:
        pass_in = f"ip saddr {self.harness} tcp dport {self.ssh_port} accept;"
        pass_out = f"ip daddr {self.harness} tcp sport {self.ssh_port} accept;"

        def drop(end: str, addresses: Sequence[str]) -> str:
            return f"ip {end} {{ {', '.join(addresses)} }} drop;" if addresses else ""

        def reset(end: str, addresses: Sequence[str]) -> str:
            listed = ", ".join(addresses)
            # A reset must pass, or the rule would stop the resets that it sends.
            match = f"ip {end} {{ {listed} }} tcp flags & rst == 0"
            return f"{match} counter reject with tcp reset;" if addresses else ""

        return f"""
            table inet {self.name}
            delete table inet {self.name}
            table inet {self.name} {{
                chain early_in {{ type filter hook prerouting priority {_EARLY};
                    {pass_in} {drop("saddr", rules.not_from)} }}
                chain early_out {{ type filter hook output priority {_EARLY};
                    {pass_out} {drop("daddr", rules.not_to)} }}
                chain late_in {{ type filter hook input priority 0;
                    {pass_in} {reset("saddr", rules.reset_from)} }}
                chain late_out {{ type filter hook output priority 0;
                    {pass_out} {reset("daddr", rules.reset_to)} }}
            }}
        """

    def _as_iptables(self, rules: FirewallRules) -> Sequence[str]:
        lines = []
        for table, hook in _HOOKS:
            chain = self._chain(hook)
            incoming = hook in ("PREROUTING", "INPUT")
            spared = f"-s {self.harness} -p tcp --dport" if incoming else f"-d {self.harness} -p tcp --sport"
            lines += [f"-t {table} -N {chain}", f"-t {table} -A {chain} {spared} {self.ssh_port} -j RETURN"]
            if table == "raw":
                for address in rules.not_from if incoming else rules.not_to:
                    lines.append(f"-t raw -A {chain} {'-s' if incoming else '-d'} {address} -j DROP")
            else:
                for address in rules.reset_from if incoming else rules.reset_to:
                    end = "-s" if incoming else "-d"
                    lines.append(
                        f"-t filter -A {chain} {end} {address} -p tcp ! --tcp-flags RST RST "
                        f"-j REJECT --reject-with tcp-reset"
                    )
            lines.append(f"-t {table} -I {hook} -j {chain}")
        return lines

    def _chain(self, hook: str) -> str:
        return f"{self.name}-{hook.lower()}"[:28]

    def _counted(self, hook: str) -> int:
        listed = subprocess.run(
            ["iptables", "-w", "-t", "filter", "-nvxL", self._chain(hook)], capture_output=True, text=True, check=False
        )
        return sum(int(line.split()[0]) for line in listed.stdout.splitlines() if " REJECT " in line)


_HOOKS = (("raw", "PREROUTING"), ("raw", "OUTPUT"), ("filter", "INPUT"), ("filter", "OUTPUT"))


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(0, f"{command[0]} refused: {' '.join(done.stderr.split())}")
