"""Formats how often the marks of a sweep fired; those that never fired come first."""

from __future__ import annotations

from collections.abc import Mapping

from broker.core.ports.marks import declared


def mark_lines(fired: Mapping[str, int], seeds: int) -> list[str]:
    """The table, one line per mark."""
    names = sorted({*declared(), *fired})
    if not names or not seeds:
        return []
    width = max(map(len, names))
    never = [name for name in names if not fired.get(name)]
    lines = [f"marks: {len(names) - len(never)} of {len(names)} fired"]
    lines += [f"  {name:<{width}}  never" for name in never]
    lines += [
        f"  {name:<{width}}  {fired[name]:>10,}  {fired[name] / seeds:8.2f} a seed"
        for name in sorted(set(names) - set(never), key=lambda name: fired[name])
    ]
    return lines
