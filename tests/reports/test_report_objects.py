"""The picture of objects that no order explains, next to a run's page."""

import json

import pytest

from checkers.linearizability.check import check_history
from checkers.linearizability.evidence import verdict_json
from checkers.linearizability.operations import Operation
from reports import render
from tests.support.html_check import Page

FORGOTTEN = [Operation(1, 0, 10, "write", 5, key="chaos-0/3"), Operation(2, 20, 30, "read", None, 4, key="chaos-0/3")]
KEPT = [Operation(1, 0, 10, "write", 5), Operation(2, 20, 30, "read", None, 5)]


def judged(run, operations):
    verdict = verdict_json(check_history(operations, "cas-register"))
    (run / "linearizability.json").write_text(json.dumps(verdict))
    return run / "linearizability.html"


def test_objects_that_no_order_explains_are_drawn_and_the_page_says_where(copy_of):
    run = copy_of("invalid")
    picture = judged(run, FORGOTTEN)
    page = Page(render(run))
    assert ("a", picture.name) in page.texts
    assert "chaos-0/3" in picture.read_text()
    assert "read → 4" in picture.read_text()


def test_a_picture_that_is_no_longer_true_goes(copy_of):
    run = copy_of("valid")
    picture = judged(run, FORGOTTEN)
    render(run)
    assert picture.exists()
    judged(run, KEPT)
    assert picture.name not in Page(render(run)).source
    assert not picture.exists()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"outcome": "invalid"}', "\x00"])
def test_a_verdict_that_cannot_be_read_is_no_violation(copy_of, content):
    run = copy_of("valid")
    (run / "linearizability.json").write_text(content)
    render(run)
    assert not (run / "linearizability.html").exists()
