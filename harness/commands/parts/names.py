"""Suggests the probable name when a command, option or argument has an unknown one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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
