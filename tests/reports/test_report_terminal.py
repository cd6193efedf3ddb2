"""The summary for the terminal says the same as the page, also without colours."""

import io
import json

import pytest
from rich.console import Console

from reports.data.stored_run import RunNotFoundError
from reports.text.terminal import summary_lines


def printed(directory, **options):
    out = io.StringIO()
    Console(file=out, width=200, **options).print(summary_lines(directory))
    return out.getvalue()


def test_it_gives_the_figures_and_the_verdict(stored_runs):
    text = printed(stored_runs["invalid"])
    assert (
        "INVALID  14 acknowledged writes to events-1 (offsets 638\N{EN DASH}651) were lost: broker 2 cut them off"
        in text
    )
    assert "kill 1 of 1" in text
    assert "14 violations, 0 within the contract" in text
    assert "FUSE file system" in text


@pytest.mark.parametrize(
    ("summaries", "said"),
    [
        ({"ack-before-replication": "acknowledged too early"}, ": acknowledged too early."),
        ({"another": "something else"}, "."),
        ("no table", "."),
    ],
)
def test_it_says_what_a_planted_flaw_is(copy_of, summaries, said):
    directory = copy_of("invalid")
    spec = json.loads((directory / "spec.json").read_text())
    (directory / "spec.json").write_text(json.dumps(spec | {"flaw_summaries": summaries}))
    assert f"This build of Harrow's own broker has a bug planted on purpose, ack-before-replication{said}" in " ".join(
        printed(directory).split()
    )


def test_without_a_terminal_it_is_plain_text(stored_runs):
    assert "\x1b" not in printed(stored_runs["valid"])
    assert "\x1b[" in printed(stored_runs["valid"], force_terminal=True)


def test_an_empty_run_is_unknown_and_says_what_is_missing(stored_runs):
    text = printed(stored_runs["empty"])
    assert "UNKNOWN  This run has not been checked" in text
    assert "The table runs is missing." in text
    assert "not checked" in text


def test_a_name_in_rich_markup_is_printed_as_it_is(copy_of):
    directory = copy_of("valid")
    (directory / "results.json").write_text('{"verdict": "unknown", "reasons": ["[bold]no[/bold]"]}')
    assert "[bold]no[/bold]" in printed(directory)


def test_a_run_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(RunNotFoundError):
        summary_lines(tmp_path / "nowhere")
