"""The command that repeats a simulation."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence


def command(words: Sequence[str], overrides: Mapping[str, object]) -> str:
    """`harrow WORDS` with the flags that these overrides came from."""
    words = ["harrow", *words]
    for key, value in overrides.items():
        if key == "generation":
            words += ["--generation", str(value)]
        elif key == "flaws":
            words += [word for flaw in _listed(value) for word in ("--flaw", flaw)]
        else:
            words += ["--set", f"{key}={_text(value)}"]
    return shlex.join(words)


def _listed(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list | tuple) else [str(value)]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(_listed(value))
