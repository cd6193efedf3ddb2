"""Sets up Jinja for all pages: escapes by default, and raises on every undefined name."""

from __future__ import annotations

import jinja2

from common import wording


def environment() -> jinja2.Environment:
    """Return an environment with the templates of this package and the filters that every page needs."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("reports", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(count=wording.count)
    made.globals.update(plural=wording.plural)
    return made
