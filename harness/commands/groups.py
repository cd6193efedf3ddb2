"""Command groups: they import a command only when it is called, and suggest names for unknown ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click

from common.names import unknown


class OneOf(click.ParamType[str]):
    """A parameter type that accepts known names only."""

    name = "name"

    def __init__(self, known: Iterable[str], what: str, see: str = "") -> None:
        self._known = tuple(known)
        self._what = what
        self._see = see

    def convert(
        self,
        value: Any,  # noqa: ANN401
        param: click.Parameter | None,  # noqa: ARG002
        ctx: click.Context | None,
    ) -> str:
        if value not in self._known:
            raise click.UsageError(unknown(value, self._known, self._what, self._see), ctx)
        return str(value)


class NamedGroup(click.Group):
    """A command group that suggests a command for an unknown name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See `click.Command.parse_args`."""
        if not args and not self.invoke_without_command:
            raise click.UsageError(f"expected one of {', '.join(self.list_commands(ctx))}, found no command", ctx)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """See `click.Group.resolve_command`."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            raise click.UsageError(unknown(name, self.list_commands(ctx), "a command"), ctx)
        return super().resolve_command(ctx, args)


def about_option(error: click.NoSuchOption) -> str:
    """Return one line that says that the option is unknown, and suggests one."""
    context = error.ctx
    known = [] if context is None else [name for each in context.command.get_params(context) for name in _names(each)]
    where = "harrow" if context is None else context.command_path
    return unknown(error.option_name, known, f"an option of {where}")


def _names(parameter: click.Parameter) -> list[str]:
    return [*parameter.opts, *parameter.secondary_opts] if isinstance(parameter, click.Option) else []


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
