"""The recipes of docs/guide/nightly-jobs.md: their commands are understood, their shell is shell."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest

import harness
from harness.commands.cli import harrow

PAGE = (Path(harness.__file__).parents[1] / "docs" / "guide" / "nightly-jobs.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(
    r"harrow (suite nightly\b.*?|heal)(?=\n| >| \|\|)", "".join(b for _, b in BLOCKS).replace("\\\n", "")
)


def test_every_service_has_a_recipe() -> None:
    assert [language for language, _ in BLOCKS] == ["yaml", "yaml", "groovy", "", "ini", "ini"]
    assert len(COMMANDS) == 6


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_of_a_recipe_is_understood(command: str) -> None:
    name, *arguments = shlex.split(re.sub(r"\$\([^)]*\)", "word", command))
    with click.Context(harrow) as context:
        found = harrow.get_command(context, name)
        assert found is not None
        found.make_context(name, list(arguments), parent=context)


SCRIPTS = {
    "github": re.findall(r"run: (?!>)(.*)", BLOCKS[0][1]),
    "gitlab": re.findall(
        r"^    - (.*[ $].*)$", BLOCKS[1][1].partition("script:")[2].partition("allow")[0], re.MULTILINE
    ),
    "jenkins": re.findall(r"sh '([^']+)'", BLOCKS[2][1]) + re.findall(r"'''(.*?)'''", BLOCKS[2][1], re.DOTALL),
    "cron": [line.split(None, 5)[5] for line in BLOCKS[3][1].splitlines() if line.startswith("17")],
}


@pytest.mark.parametrize("service", SCRIPTS)
def test_the_shell_of_a_recipe_is_shell(service: str) -> None:
    assert SCRIPTS[service]
    for script in SCRIPTS[service]:
        done = subprocess.run(["sh", "-n", "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{script}: {done.stderr}"


def test_the_newest_night_is_the_one_that_the_recipes_copy(tmp_path: Path) -> None:
    nights = tmp_path / "store" / "suites" / "nightly"
    for name in ("20251231T020000Z", "20260105T020000Z", "20260104T020000Z"):
        (nights / name).mkdir(parents=True)
        (nights / name / "junit.xml").write_text(name)
    script = next(line for line in SCRIPTS["gitlab"] if line.startswith("cp"))
    subprocess.run(["sh", "-c", script], cwd=tmp_path, check=True)
    assert (tmp_path / "night" / "junit.xml").read_text() == "20260105T020000Z"
