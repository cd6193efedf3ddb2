"""How pages are made of templates: escaped, and with a complaint about every name that is not there."""

from __future__ import annotations

import jinja2

from reports.text import wording


def environment() -> jinja2.Environment:
    """The templates of this package, with the wording that every page needs."""
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
