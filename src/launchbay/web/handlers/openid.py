"""Signing in through the OpenID Connect provider (api-decisions, "Authentication").

It ends with a new refresh token, or, begun with `?to=console`, with a session of the console. A provider knows one
address to send browsers back to, so a cookie remembers which of the two it is.
"""

from typing import Any

import msgspec

from launchbay.auth.cookies import sent_cookie, session_cookie
from launchbay.auth.permissions import Actor
from launchbay.errors import LaunchbayError, NotFound
from launchbay.limits import OPENID_ATTEMPT_S
from launchbay.usecases.sign_in import OpenIdSignIn, open_session, sign_in
from launchbay.web.answers import HTML, Answer, Html
from launchbay.web.call import Call
from launchbay.web.endpoint import Endpoint, Returns
from launchbay.web.handlers.pages import show_new_token
from launchbay.web.html import page

START = "/signIn/openid"
CALLBACK = f"{START}/callback"
CONSOLE = "console"
START_FOR_CONSOLE = f"{START}?to={CONSOLE}"
_COOKIE = "launchbay_openid"
_TO_COOKIE = "launchbay_openid_to"
_TAGS = ("Pages",)


class BeginQuery(msgspec.Struct, frozen=True):
    """What the sign-in is for: `console`, or a refresh token."""

    to: str | None = None


class CallbackQuery(msgspec.Struct, frozen=True):
    """What the provider's redirect brings (RFC 6749 §4.1.2, RFC 9207)."""

    code: str | None = None
    state: str | None = None
    error: str | None = None
    error_description: str | None = None
    iss: str | None = None


async def begin_sign_in(call: Call[None, BeginQuery]) -> Answer:
    """Send the browser to the provider."""
    try:
        begun = await _configured(call).provider.begin()
    except LaunchbayError as error:
        return page("notice.html", error, heading="Sign in")
    to = CONSOLE if call.query.to == CONSOLE else ""
    remembered = _cookie(call, to, OPENID_ATTEMPT_S if to else 0, _TO_COOKIE)
    return Html("", 302, (("Location", begun.url), _cookie(call, begun.cookie, OPENID_ATTEMPT_S), remembered))


async def finish_sign_in(call: Call[None, CallbackQuery]) -> Answer:
    """Take the provider's answer, and give whom it is about a new refresh token or a session of the console."""
    desk = call.services.desk
    try:
        openid = _configured(call)
        brought = {name: value for name, value in msgspec.structs.asdict(call.query).items() if value is not None}
        cookies = call.headers.get("cookie", "")
        identity = await openid.provider.finish(sent_cookie(cookies, _COOKIE), brought)
        actor = await sign_in(desk, openid.admission, identity, call.address)
        is_for_console = sent_cookie(cookies, _TO_COOKIE) == CONSOLE
        shown = await (_opened_console(call, actor) if is_for_console else show_new_token(desk, actor, ""))
    except LaunchbayError as error:
        shown = page("notice.html", error, heading="Sign in")
    assert isinstance(shown, Html)
    # The attempt is over, however it ended.
    over = (_cookie(call, "", 0), _cookie(call, "", 0, _TO_COOKIE))
    return msgspec.structs.replace(shown, headers=(*shown.headers, *over))


async def _opened_console(call: Call[None, CallbackQuery], actor: Actor) -> Answer:
    session = await open_session(call.services.desk, actor)
    cookie = session_cookie(session.token, session.expires_in_s, secure=call.services.base_url.startswith("https://"))
    return Html("", 303, (("Location", "/console"), ("Set-Cookie", cookie)))


def _configured(call: Call[Any, Any]) -> OpenIdSignIn:
    if call.services.openid is None:
        raise NotFound("No identity provider is set up on this server.", "Sign in with your password at /refreshToken.")
    return call.services.openid


def _cookie(call: Call[Any, Any], value: str, seconds: int, name: str = _COOKIE) -> tuple[str, str]:
    secure = "; Secure" if call.services.base_url.startswith("https://") else ""
    # Lax: the provider's redirect comes from another site, and must bring the cookie.
    return "Set-Cookie", f"{name}={value}; Path={START}; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"


ENDPOINTS = (
    Endpoint(
        method="GET",
        path=START,
        operation_id="begin_sign_in",
        handler=begin_sign_in,
        summary="Sends the browser to the OpenID Connect provider to sign in.",
        tags=_TAGS,
        public=True,
        query=BeginQuery,
        returns=Returns(str, "Never: the answer is a redirect (302) to the provider.", media_type=HTML),
        statuses=(404,),
        addition=True,
    ),
    Endpoint(
        method="GET",
        path=CALLBACK,
        operation_id="finish_sign_in",
        handler=finish_sign_in,
        summary="Takes the provider's answer and shows a new refresh token, this once.",
        tags=_TAGS,
        public=True,
        query=CallbackQuery,
        returns=Returns(str, "The page with the token.", media_type=HTML),
        statuses=(401, 403, 404, 409),
        addition=True,
    ),
)
