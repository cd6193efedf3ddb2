"""Reports a suite: page, JUnit file and Markdown summary. They read the suite's directory and nothing else."""

from __future__ import annotations

from pathlib import Path

from common.atomic_files import replacing
from reports.suite.documents import page
from reports.suite.junit import junit
from reports.suite.loaded import load_suite
from reports.suite.markdown import markdown

__all__ = ["render_suite"]


def render_suite(directory: Path) -> Path:
    """Write `index.html`, `junit.xml` and `summary.md` into a suite's directory; the page's path."""
    suite = load_suite(directory)
    for name, text in (("junit.xml", junit(suite)), ("summary.md", markdown(suite)), ("index.html", page(suite))):
        with replacing(directory / name) as unfinished:
            unfinished.write_text(text, encoding="utf-8")
    return directory / "index.html"
