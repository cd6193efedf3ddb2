"""A command group that imports a command only when it is called, so that `harrow --help` is fast."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

import click

from harness.commands.parts.names import NamedGroup


class LazyCommand(NamedTuple):
    """A command that is not imported yet: its module, and its line in the list."""

    module: str
    summary: str
    attribute: str = ""  # default: the command's name


class LazyGroup(NamedGroup):
    """Commands by name, imported on demand. `entries` must be set before the group is used.

    `aliases` maps other names, which the help does not list, to names of commands.
    """

    entries: Mapping[str, LazyCommand] = {}
    aliases: Mapping[str, str] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Names of the commands, in the order of `entries`."""
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command; None if no command has that name."""
        name = self.aliases.get(cmd_name, cmd_name)
        entry = self.entries.get(name)
        if entry is None:
            return None
        command = getattr(import_module(entry.module), entry.attribute or name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List all commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.entries.items()])
