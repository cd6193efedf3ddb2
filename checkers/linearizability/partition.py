"""Splits a history into independent objects: linearizability is local (Herlihy and Wing 1990)."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping, Sequence

from checkers.linearizability.models import Model
from checkers.linearizability.operations import Operation


def by_key(
    model: Model, operations: Sequence[Operation], spoilt: Container[Hashable] | Mapping[Hashable, object]
) -> dict[Hashable, list[Operation] | None]:
    """Return the operations of each independent part, None for the keys in `spoilt`, whose history is incomplete.

    A part is a key, or, where one operation may touch several names of a key, the names that operations connect.
    """
    whole: dict[Hashable, list[Operation]] = {}
    for operation in operations:
        whole.setdefault(operation.key, []).append(operation)
    parts: dict[Hashable, list[Operation] | None] = {}
    for key, of_key in whole.items():
        if key not in spoilt and model.names_in_argument is not None:
            for names, of_names in _connected(model, of_key).items():
                parts[names if key is None else (key, *names)] = of_names
        else:
            parts[key] = None if key in spoilt else of_key
    if isinstance(spoilt, Mapping):
        parts |= dict.fromkeys(spoilt)
    return parts


def _connected(model: Model, operations: Iterable[Operation]) -> dict[tuple[Hashable, ...], list[Operation]]:
    names_of = model.names_in_argument
    if names_of is None:
        return {}
    parent: dict[Hashable, Hashable] = {}

    def root(name: Hashable) -> Hashable:
        while parent.setdefault(name, name) != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    touched = [(operation, tuple(names_of(operation.argument))) for operation in operations]
    for _, names in touched:
        for name in names[1:]:
            parent[root(name)] = root(names[0])
    members: dict[Hashable, list[Hashable]] = {}
    parts: dict[Hashable, list[Operation]] = {}
    for operation, names in touched:
        if names:
            parts.setdefault(root(names[0]), []).append(operation)
    for name in {name: None for _, names in touched for name in names}:
        members.setdefault(root(name), []).append(name)
    return {tuple(sorted(members[of], key=str)): operations_of for of, operations_of in parts.items()}
