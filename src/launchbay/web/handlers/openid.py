"""Signing in through the OpenID Connect provider, to get a refresh token (api-decisions, "Authentication")."""

from http.cookies import CookieError, SimpleCookie
from typing import Any

import msgspec

from launchbay.errors import LaunchbayError, NotFound
from launchbay.limits import OPENID_ATTEMPT_S
from launchbay.usecases.openid import OpenIdSignIn, sign_in
from launchbay.web.answers import HTML, Answer, Html
from launchbay.web.call import Call
from launchbay.web.endpoint import Endpoint, Returns
from launchbay.web.handlers.pages import show_new_token
from launchbay.web.html import page

START = "/signIn/openid"
CALLBACK = f"{START}/callback"
_COOKIE = "launchbay_openid"
_TAGS = ("Pages",)


class CallbackQuery(msgspec.Struct, frozen=True):
    """What the provider's redirect brings (RFC 6749 §4.1.2, RFC 9207)."""

    code: str | None = None
    state: str | None = None
    error: str | None = None
    error_description: str | None = None
    iss: str | None = None


async def begin_sign_in(call: Call[None, None]) -> Answer:
    """Send the browser to the provider."""
    try:
        begun = await _configured(call).provider.begin()
    except LaunchbayError as error:
        return page("notice.html", error, heading="Sign in")
    return Html("", 302, (("Location", begun.url), _cookie(call, begun.cookie, OPENID_ATTEMPT_S)))


async def finish_sign_in(call: Call[None, CallbackQuery]) -> Answer:
    """Take the provider's answer, and show a new refresh token to whom it is about."""
    desk = call.services.desk
    try:
        openid = _configured(call)
        brought = {name: value for name, value in msgspec.structs.asdict(call.query).items() if value is not None}
        identity = await openid.provider.finish(_sent_cookie(call), brought)
        actor = await sign_in(desk, openid.admission, identity, call.address)
        shown = await show_new_token(desk, actor, "")
    except LaunchbayError as error:
        shown = page("notice.html", error, heading="Sign in")
    assert isinstance(shown, Html)
    # The attempt is over, however it ended.
    return msgspec.structs.replace(shown, headers=(*shown.headers, _cookie(call, "", 0)))


def _configured(call: Call[Any, Any]) -> OpenIdSignIn:
    if call.services.openid is None:
        raise NotFound("No identity provider is set up on this server.", "Sign in with your password at /refreshToken.")
    return call.services.openid


def _cookie(call: Call[Any, Any], value: str, seconds: int) -> tuple[str, str]:
    secure = "; Secure" if call.services.base_url.startswith("https://") else ""
    # Lax: the provider's redirect comes from another site, and must bring the cookie.
    return "Set-Cookie", f"{_COOKIE}={value}; Path={START}; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"


def _sent_cookie(call: Call[Any, Any]) -> str:
    try:
        found = SimpleCookie(call.headers.get("cookie", "")).get(_COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


ENDPOINTS = (
    Endpoint(
        method="GET",
        path=START,
        operation_id="begin_sign_in",
        handler=begin_sign_in,
        summary="Sends the browser to the OpenID Connect provider to sign in.",
        tags=_TAGS,
        public=True,
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
