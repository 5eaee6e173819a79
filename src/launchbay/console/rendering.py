"""The templates, and the headers of every page: nothing runs or loads that is not the console's own file."""

from typing import Any

import jinja2

from launchbay.console import assets, wording

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    # Without any referrer, browsers would also hide from us that our own forms come from us.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("launchbay.console", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals["asset"] = assets.address
    for word in (
        wording.moment,
        wording.span,
        wording.until,
        wording.compact,
        wording.pretty,
        wording.shown_value,
        wording.status_badge,
        wording.covered_value,
    ):
        environment.filters[word.__name__] = word
    return environment


_templates = _environment()


def render(template: str, values: dict[str, Any]) -> str:
    """Return a filled template. Everything that is filled in is escaped; a name that is missing is an error."""
    return _templates.get_template(template).render(values)
