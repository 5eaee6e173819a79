"""A sentence for the next page, after a form was taken: it travels in a cookie, signed for the session."""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Literal

import msgspec

COOKIE = "launchbay_notice"
_PURPOSE = b"launchbay notice"
_SECONDS = 60
_CHARS = 400


class Notice(msgspec.Struct, frozen=True):
    """What to say."""

    text: str
    kind: Literal["done", "warning"] = "done"


def notice_cookie(session: str, notice: Notice | None, *, secure: bool) -> str:
    """Return the value of a Set-Cookie header that carries the notice; None takes it away."""
    value, seconds = "", 0
    if notice is not None:
        clipped = msgspec.structs.replace(notice, text=notice.text[:_CHARS])
        payload = urlsafe_b64encode(msgspec.json.encode(clipped))
        value, seconds = f"{payload.decode()}.{_signature(session, payload)}", _SECONDS
    return f"{COOKIE}={value}; Path=/console; Max-Age={seconds}; HttpOnly; SameSite=Lax{'; Secure' if secure else ''}"


def read_notice(session: str, value: str) -> Notice | None:
    """Return the notice in the cookie's value, None for one that this session was not given."""
    payload, _, signature = value.partition(".")
    if not hmac.compare_digest(_signature(session, payload.encode()).encode(), signature.encode()):
        return None
    try:
        return msgspec.json.decode(urlsafe_b64decode(payload.encode()), type=Notice)
    except (ValueError, msgspec.MsgspecError):
        return None


def _signature(session: str, payload: bytes) -> str:
    return hmac.digest(session.encode(), _PURPOSE + payload, "sha256").hex()[:32]
