"""Pages outside the console: templates in `pages/`, rendered on the server, without scripts.

The page contains its style, and the content security policy allows only its hash: nothing else is loaded or run.
"""

from base64 import b64encode
from hashlib import sha256
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from launchbay.auth.cookies import require_same_origin_form
from launchbay.errors import LaunchbayError, TooManyRequests, Unavailable
from launchbay.web.problems import status_of
from launchbay.web.requests import Request
from launchbay.web.responses import Headers, HTMLResponse

_STYLE = (resources.files("launchbay.web") / "pages" / "style.css").read_text("utf-8")
_STYLE_HASH = b64encode(sha256(_STYLE.encode()).digest()).decode()
_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Headers = (
    ("Content-Security-Policy", _POLICY),
    # Without a referrer, browsers would also hide the origin of our own forms (auth/cookies.py checks it).
    ("Referrer-Policy", "same-origin"),
)
_templates = jinja2.Environment(
    loader=jinja2.PackageLoader("launchbay.web", "pages"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)


def page(template: str, problem: LaunchbayError | None = None, **values: Any) -> HTMLResponse:
    """Return a page. With a problem it has the status of the API's response to it."""
    problems = () if problem is None else problem.messages
    text = _templates.get_template(template).render(style=Markup(_STYLE), problems=problems, **values)  # noqa: S704 - our own file
    return HTMLResponse(text, 200 if problem is None else status_of(problem), (*_HEADERS, *_problem_headers(problem)))


def _problem_headers(problem: LaunchbayError | None) -> Headers:
    if isinstance(problem, TooManyRequests | Unavailable):
        return (("Retry-After", str(problem.retry_after_s)),)
    if problem is not None and status_of(problem) == 401:
        # HTTP requires a challenge; `Basic` would open the browser's own dialog.
        return (("WWW-Authenticate", 'Form realm="Launchbay"'),)
    return ()


def require_same_origin(request: Request[Any, Any]) -> None:
    """Raise NotAllowed for a form from another site.

    A CSRF token is not needed: these forms contain a password or a secret link.
    """
    require_same_origin_form(request.headers, request.deps.base_url)
