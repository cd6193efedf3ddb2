"""Commands of our modules are recognised."""

from __future__ import annotations

import sys

from harness.environments.machine.helpers.programs import module_command, module_of


def test_a_module_command_is_known_for_what_it_runs() -> None:
    assert module_of(module_command("broker.shell", "-P", "x")) == ("broker.shell", ["-P", "x"])
    assert module_of([sys.executable, "-m", "one"]) == ("one", [])
    assert module_of([sys.executable, "one.py", "-m"]) is None
    assert module_of([sys.executable]) is None
