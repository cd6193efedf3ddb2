"""A package of two modules that is copied and compiled in tests, in place of the simulator."""

from __future__ import annotations

from pathlib import Path

from simulation.runs.compiling import Recipe

_PROGRAM = """
import pathlib
import tiny.hot
made = pathlib.Path(tiny.__file__).with_name("made").exists() or not tiny.hot.__file__.endswith(".py")
print("compiled" if made else "plain")
print("twice", tiny.hot.twice(21))
"""

BUILDS = "import pathlib; pathlib.Path('tiny', 'made').touch()"
"""A build that makes nothing faster."""

BUILDS_WRONG = f"{BUILDS}; hot = pathlib.Path('tiny', 'hot.py'); hot.write_text(hot.read_text().replace('2', '(3)'))"
FAILS = "print('no such register'); raise SystemExit(1)"


def recipe(directory: Path, program: str = _PROGRAM) -> Recipe:
    """Write the package into a new directory below."""
    package = directory / "sources" / "tiny"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "hot.py").write_text("def twice(number: int) -> int:\n    return number * 2\n")
    (package / "cold.py").write_text("class Cold:\n    pass\n")
    return Recipe(str(package.parent), ("tiny",), ("tiny/*.py",), (), program)
