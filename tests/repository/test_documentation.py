"""Every command and link in the documentation is valid."""

import re
import shlex
from pathlib import Path

import click
import pytest

import harness
from harness.commands.cli import harrow

ROOT = Path(harness.__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands(page: Path) -> list[str]:
    """Lines of code blocks that call `harrow`, without their comments; synopses with capitals or dots are none."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    typed = [block for language, block in blocks if language in ("", "sh", "bash", "console")]
    lines = [line.removeprefix("$ ") for block in typed for line in block.splitlines()]
    return [re.split(r"  |\t", line)[0].strip() for line in lines if re.match(r"harrow [a-z]", line)]


COMMANDS = sorted({command for page in PAGES for command in commands(page) if not re.search(r"[A-Z…\[|>]", command)})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_readme_has_commands() -> None:
    assert len(commands(ROOT / "README.md")) > 5


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_that_is_shown_is_understood(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(click.Path, "convert", lambda self, value, parameter, context: value)  # its files are not here
    words = shlex.split(command)[1:]
    with click.Context(harrow) as context:
        _, found, arguments = harrow.resolve_command(context, words)
        while isinstance(found, click.Group):
            _, found, arguments = found.resolve_command(context, arguments)
        found.make_context(words[0], arguments, parent=context)
