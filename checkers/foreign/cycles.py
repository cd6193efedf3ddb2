"""Finds cycles of operations: strongly connected components of a graph over small integers, without recursion."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def components(size: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """Number the strongly connected components (Tarjan, 1972): two nodes on a common cycle have one number.

    Linear in nodes and edges.
    """
    following: list[list[int]] = [[] for _ in range(size)]
    for begin, end in edges:
        following[begin].append(end)
    found = [-1] * size
    lowest = [0] * size
    component = [-1] * size
    waiting: list[int] = []
    clock = numbered = 0
    for root in range(size):
        if found[root] >= 0:
            continue
        path = [(root, 0)]
        while path:
            node, turn = path.pop()
            if turn == 0:
                found[node] = lowest[node] = clock
                clock += 1
                waiting.append(node)
            descended = False
            neighbours = following[node]
            for index in range(turn, len(neighbours)):
                other = neighbours[index]
                if found[other] < 0:
                    path.append((node, index + 1))
                    path.append((other, 0))
                    descended = True
                    break
                if component[other] < 0:
                    lowest[node] = min(lowest[node], found[other])
            if descended:
                continue
            if lowest[node] == found[node]:
                while True:
                    member = waiting.pop()
                    component[member] = numbered
                    if member == node:
                        break
                numbered += 1
            if path:
                parent = path[-1][0]
                lowest[parent] = min(lowest[parent], lowest[node])
    return component


def on_cycles(component: Sequence[int], edges: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """Keep the edges that lie on a cycle."""
    return {(begin, end) for begin, end in edges if component[begin] == component[end]}
