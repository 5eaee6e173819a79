"""Reads the `Authorization` header, strictly: what is not exactly right is refused (reference §5; RFC 7617, 6750)."""

import binascii
from dataclasses import dataclass, field

from launchbay.errors import NotAuthenticated


@dataclass(frozen=True, slots=True)
class BasicCredentials:
    """E-mail and password as sent; neither is shown by `repr`, so that no log and no traceback has the password."""

    email: str = field(repr=False)
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class BearerCredentials:
    """The text of a session token, not yet looked at."""

    token: str = field(repr=False)


def read_authorization(header: str | None) -> BasicCredentials | BearerCredentials:
    """Return the credentials in the header's value; a bearer token wins over Basic.

    Both may be sent, separated by a comma, which is also how two lines of one header read when joined. Raises
    NotAuthenticated when there are none, when a scheme comes twice, or when the credentials that count are malformed.
    """
    if header is None or not header.strip():
        raise NotAuthenticated("Credentials are missing.", "Send Authorization: Basic or Authorization: Bearer.")
    if not header.isascii():
        raise _malformed("the header holds only ASCII characters")
    found: dict[str, str] = {}
    # Neither base64 nor a session token can hold a comma.
    for part in header.split(","):
        scheme, _, credentials = part.strip(" \t").partition(" ")
        if scheme.lower() in found:
            raise _malformed(f"the scheme {scheme[:20]!r} is sent twice")
        found[scheme.lower()] = credentials.strip(" ")
    if "bearer" in found:
        if not found["bearer"]:
            raise _malformed("the bearer token is missing")
        return BearerCredentials(found["bearer"])
    if "basic" in found:
        return _basic(found["basic"])
    raise NotAuthenticated("The authentication scheme is not known.", "Send Authorization: Basic or Bearer.")


def _basic(encoded: str) -> BasicCredentials:
    try:
        data = binascii.a2b_base64(encoded, strict_mode=True)
        decoded = data.decode("utf-8")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise _malformed("Basic credentials are the base64 of <email>:<password> in UTF-8") from error
    if binascii.b2a_base64(data, newline=False).decode() != encoded:
        raise _malformed("the base64 of Basic credentials has more padding than it needs")
    email, colon, password = decoded.partition(":")
    if not colon or not email:
        raise _malformed("Basic credentials are the base64 of <email>:<password>, with a colon between the two")
    if any(character < " " or character == "\x7f" for character in decoded):
        raise _malformed("e-mail and password hold no control characters")
    return BasicCredentials(email, password)


def _malformed(problem: str) -> NotAuthenticated:
    return NotAuthenticated(f"The Authorization header is malformed: {problem}.")
