"""Whether a form comes from a page of ours, so that no other site can send it in its visitor's name (CSRF).

Browsers say it themselves: `Sec-Fetch-Site` where the connection is secure, `Origin` everywhere. What sends neither is
no browser, and cannot be made to send by a site. No cookie and no hidden field is needed.
"""

from typing import Any
from urllib.parse import urlsplit

from launchbay.errors import NotAllowed
from launchbay.web.call import Call


def require_same_origin(call: Call[Any, Any]) -> None:
    """Refuse a form that another site sent. Raises NotAllowed."""
    site = call.headers.get("sec-fetch-site")
    if site is not None:
        allowed = site in {"same-origin", "none"}
    else:
        origin = call.headers.get("origin")
        allowed = origin is None or _host(origin) in _own_hosts(call)
    if not allowed:
        raise NotAllowed(
            "This form was sent by another site.", "Open the page itself and send it from there.", code="CrossOrigin"
        )


def _own_hosts(call: Call[Any, Any]) -> set[str]:
    """Return how this server is called: by this caller, and by its setting, which a proxy may have replaced."""
    own = {call.headers.get("host", ""), _host(call.services.base_url)}
    return own - {""}


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""
