"""Whether a form comes from a page of ours, so that no other site can send it in its visitor's name (CSRF).

Browsers say it themselves: `Sec-Fetch-Site` where the connection is secure, `Origin` everywhere. What sends neither is
no browser, and cannot be made to send by a site.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from launchbay.errors import NotAllowed


def require_own_form(headers: Mapping[str, str], base_url: str) -> None:
    """Refuse a form that another site sent; `headers` has lower-case names. Raises NotAllowed.

    This server is called as this caller calls it, and as its setting says, which a proxy may have replaced.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        allowed = site in {"same-origin", "none"}
    else:
        origin = headers.get("origin")
        own = {headers.get("host", ""), _host(base_url)} - {""}
        allowed = origin is None or _host(origin) in own
    if not allowed:
        raise NotAllowed(
            "This form was sent by another site.", "Open the page itself and send it from there.", code="CrossOrigin"
        )


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""
