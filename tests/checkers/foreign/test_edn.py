"""The reader of EDN: what it reads, and that it continues after what it cannot read."""

from __future__ import annotations

import pytest

from checkers.foreign.edn import Form, edn_rows, forms
from checkers.foreign.events import Aside, Event, Malformed, Value


def read(text: str) -> list[Value]:
    return [form.value if isinstance(form, Form) else form for form in forms(text)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{:a 1}", {"a": 1}),
        ('{"a" nil, :b true}', {"a": None, "b": True}),
        ("{:n [-1 +2 3N 1.5 1e3 2M]}", {"n": (-1, 2, 3, 1.5, 1000.0, 2.0)}),
        ("{:s #{1 2}, :l (1 2)}", {"s": frozenset({1, 2}), "l": (1, 2)}),
        (r'{:t "a\"b\nA" :c \a :d \newline}', {"t": 'a"b\nA', "c": "a", "d": "\n"}),
        ('{:i #inst "2020-01-01" :o #jepsen.history.Op{:f :read}}', {"i": "2020-01-01", "o": {"f": "read"}}),
        ("; a comment\n{:a ; another\n 1}", {"a": 1}),
        ("{:a #_ dropped 1 #_ #_ x y :b 2}", {"a": 1, "b": 2}),
        ("{[:k 1] {:v #{}}}", {("k", 1): {"v": frozenset()}}),
        ("{:x ##Inf :y foo/bar :z 1/2}", {"x": "##Inf", "y": "foo/bar", "z": "1/2"}),
    ],
)
def test_a_form_is_read(text: str, value: Value) -> None:
    assert read(text) == [value]


def test_a_vector_around_the_operations_makes_no_difference() -> None:
    assert read("[{:a 1}\n {:a 2}]") == read("{:a 1} {:a 2}") == [{"a": 1}, {"a": 2}]


def test_reading_continues_at_the_next_operation() -> None:
    assert read("{:a 1}\n{:a [2}\n {:a 3}") == [{"a": 1}, Malformed(2, "expected ], found }"), {"a": 3}]


def test_a_text_that_was_cut_off_is_reported() -> None:
    assert read('{:a 1}\n{:a "2') == [{"a": 1}, Malformed(2, "unreadable text")]
    assert read("{:a 1}\n{:a [2") == [{"a": 1}, Malformed(2, "the text ends within an operation")]


def test_deep_nesting_is_malformed_and_exhausts_nothing() -> None:
    depth = 50_000
    assert read("{:a " + "[" * depth + "]" * depth + "}\n{:a 1}") == [
        Malformed(1, "nested deeper than 100 levels"),
        {"a": 1},
    ]


def test_events_of_the_nemesis_are_set_apart() -> None:
    rows = list(edn_rows("{:process :nemesis, :type :info, :f :start} {:process 1, :type :ok, :f :read, :value 3}"))
    assert rows == [Aside("nemesis", "start"), Event(1, 1, "ok", "read", 3)]


def test_a_map_that_is_no_operation_is_malformed() -> None:
    assert [row.problem for row in edn_rows("{:process 1} 7") if isinstance(row, Malformed)] == [
        "expected a :type among invoke, ok, fail and info",
        "expected an operation, a map",
    ]
