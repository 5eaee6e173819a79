"""The cookie by which a browser keeps its session, and the token that proves that a form is of that session.

The cookie holds a session token (`tokens.py`). Scripts cannot read it, and other sites cannot have it sent with a form;
the form's token stops what still gets through (decision 0075).
"""

import hmac
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from launchbay import limits
from launchbay.errors import NotAllowed

# Whether a form comes from a page of ours, so that no other site can send it in its visitor's name (CSRF).
#
# Browsers say it themselves: `Sec-Fetch-Site` where the connection is secure, `Origin` everywhere. What sends neither
# is no browser, and cannot be made to send by a site.


def require_same_origin_form(headers: Mapping[str, str], base_url: str) -> None:
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


NAME = "launchbay_session"
_PREFIX = "__Host-"
PATH = "/"
_PURPOSE = b"launchbay form"
_TOKEN_CHARS = 32


def session_cookie(token: str, seconds: int, *, secure: bool) -> str:
    """Return the value of a Set-Cookie header; an empty token with 0 seconds ends the session in this browser."""
    return set_cookie(NAME, token, seconds, path=PATH, secure=secure)


# What an older Python client looks for after it signed in. This server never reads it.
_OLDER_NAME = "PLAY_SESSION"


def session_cookies(token: str, seconds: int, *, secure: bool) -> tuple[str, str]:
    """Return two Set-Cookie values: the session's, and one under the older name."""
    common = f"Max-Age={seconds}; HttpOnly; SameSite=Lax" + ("; Secure" if secure else "")
    return session_cookie(token, seconds, secure=secure), f"{_OLDER_NAME}={token}; Path={PATH}; {common}"


def set_cookie(name: str, value: str, seconds: int, *, path: str, secure: bool) -> str:
    """Return the value of a Set-Cookie header.

    With `secure` the name gets the prefix `__Host-`, for which browsers require the path `/` (RFC 6265bis §4.1.3.2):
    no subdomain and nobody on an unencrypted connection can plant such a cookie.
    """
    # Lax: a link in a mail or a chat, and the redirect of an identity provider, find the session; foreign forms do not.
    common = f"Max-Age={seconds}; HttpOnly; SameSite=Lax"
    if secure:
        return f"{_PREFIX}{name}={value}; Path=/; {common}; Secure"
    return f"{name}={value}; Path={path}; {common}"


# What our cookies consist of: tokens, and base64 for addresses.
_VALUE = re.compile(r"[A-Za-z0-9._~+/=-]*", re.ASCII)


def sent_cookie(header: str, name: str = NAME, *, secure: bool) -> str:
    """Return the value of a cookie from the Cookie header, or "".

    "" also if it can't be ours. The last of several counts. With `secure` only the prefixed cookie counts: anybody
    could have planted the other one.
    Anybody can send this header, and `http.cookies` takes quadratic time for quoted values, which ours never are.
    """
    name = f"{_PREFIX}{name}" if secure else name
    if len(header) > limits.COOKIES_CHARS:
        return ""
    found = ""
    for pair in header.split(";"):
        sent, _, value = pair.partition("=")
        if sent.strip(" \t") == name:
            found = value.strip(" \t")
    return found if len(found) <= limits.COOKIE_CHARS and _VALUE.fullmatch(found) else ""


def sent_cookies(header: str, prefix: str, *, secure: bool) -> dict[str, str]:
    """Return the cookies whose names begin so, each as `sent_cookie` reads it."""
    start = f"{_PREFIX}{prefix}" if secure else prefix
    names = {pair.partition("=")[0].strip(" \t") for pair in header[: limits.COOKIES_CHARS].split(";")}
    bare = sorted(name.removeprefix(_PREFIX) if secure else name for name in names if name.startswith(start))
    return {name: sent_cookie(header, name, secure=secure) for name in bare}


def form_token(session: str) -> str:
    """Return what every form of this session carries. Who knows it does not know the session's own token."""
    return hmac.digest(session.encode(), _PURPOSE, "sha256").hex()[:_TOKEN_CHARS]


def is_form_token(session: str, sent: str) -> bool:
    return hmac.compare_digest(form_token(session).encode(), sent.encode("utf-8", "replace"))
