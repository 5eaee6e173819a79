"""Codes of authenticator applications (RFC 6238), recovery codes, and passkeys (WebAuthn Level 2).

Nothing here has state. What a code or a passkey was used for is in `store/second_factors.py`.
"""

import asyncio
import base64
import hmac
import json
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from launchbay.errors import NotAuthenticated
from launchbay.limits import PASSKEY_RESPONSE_CHARS, SECOND_STEP_S

TOTP_DIGITS = 6
_TOTP_STEP_S = 30
_TOTP_WINDOW = 1  # steps before and after: clocks differ (RFC 6238 §5.2)
_TOTP_SECRET_BYTES = 20
_RECOVERY_CODES = 10
_RECOVERY_BYTES = 15  # 120 bits: enough for a plain hash (ASVS 5.0, 6.5.2)
_RECOVERY_CHARS = 24
_ISSUER = "Launchbay"


def totp_secret(token: str) -> bytes:
    """Return the secret that a set-up with this token offers.

    The token is random, and only its hash is stored.
    """
    return sha256(b"launchbay totp\0" + token.encode()).digest()[:_TOTP_SECRET_BYTES]


def totp_code(secret: bytes, step: int, digits: int = TOTP_DIGITS) -> str:
    """Return the code of a time step (RFC 4226 §5.3)."""
    digest = hmac.digest(secret, step.to_bytes(8, "big"), "sha1")
    offset = digest[-1] & 0xF
    number = int.from_bytes(digest[offset : offset + 4], "big") & 0x7FFF_FFFF
    return str(number % 10**digits).zfill(digits)


def totp_step(secret: bytes, code: str, now_s: float) -> int | None:
    """Return the step whose code this is, among those that clocks may show now."""
    code, current = "".join(code.split()), int(now_s // _TOTP_STEP_S)
    if len(code) != TOTP_DIGITS or not code.isascii():
        return None
    found = None
    for step in range(current - _TOTP_WINDOW, current + _TOTP_WINDOW + 1):
        if hmac.compare_digest(totp_code(secret, step), code):
            found = step  # the newest of them, and always the same time
    return found


def totp_text(secret: bytes) -> str:
    """Return the secret as people type it."""
    return base64.b32encode(secret).decode()


def totp_uri(secret: bytes, email: str) -> str:
    """Return what the QR code of a set-up contains."""
    label = quote(f"{_ISSUER}:{email}", safe="")
    return f"otpauth://totp/{label}?{urlencode({'secret': totp_text(secret), 'issuer': _ISSUER})}"


def qr_code(text: str) -> str:
    """Return an SVG element with the text.

    It has no style of its own, which the pages' policy would refuse.
    """
    # By name and late: few processes ever need it.
    svg: str = import_module("segno").make(text, error="m").svg_inline(scale=4, border=4, svgclass="qr", lineclass=None)
    return svg


def new_recovery_codes() -> list[str]:
    """Return a set of recovery codes, in groups of four characters."""
    codes = [base64.b32encode(secrets.token_bytes(_RECOVERY_BYTES)).decode().lower() for _ in range(_RECOVERY_CODES)]
    return ["-".join(re.findall("....", code)) for code in codes]


def recovery_code_hash(code: str) -> bytes | None:
    """Return what is stored of a recovery code, None for what cannot be one."""
    text = re.sub(r"[\s-]", "", code).lower()
    if len(text) != _RECOVERY_CHARS or not text.isascii():
        return None
    return sha256(text.encode()).digest()


@dataclass(frozen=True, slots=True)
class RelyingParty:
    """This server as passkeys know it: host name and pages' address (WebAuthn §5.1.2)."""

    id: str
    origin: str


def relying_party(address: str) -> RelyingParty | None:
    """Return the relying party for the address of the pages.

    None for an IP address, which passkeys don't accept.
    """
    parts = urlsplit(address)
    host = parts.hostname or ""
    try:
        ip_address(host)
    except ValueError:
        return RelyingParty(host, f"{parts.scheme}://{parts.netloc}") if host else None
    return None


def creation_options(
    party: RelyingParty, token: str, user_id: str, email: str, name: str, known: Iterable[bytes]
) -> str:
    """Return the options with which a browser makes a passkey, as JSON."""
    return json.dumps(
        {
            "rp": {"id": party.id, "name": _ISSUER},
            "user": {"id": _encoded(user_id.encode()), "name": email, "displayName": name},
            "challenge": _encoded(_challenge(token)),
            "pubKeyCredParams": [{"type": "public-key", "alg": number} for number in (-8, -7, -257)],
            "excludeCredentials": _descriptors(known),
            "authenticatorSelection": {"residentKey": "discouraged", "userVerification": "preferred"},
            "attestation": "none",
            "timeout": SECOND_STEP_S * 1000,
        }
    )


def request_options(party: RelyingParty, token: str, known: Iterable[bytes]) -> str:
    """Return the options with which a browser uses a passkey, as JSON."""
    return json.dumps(
        {
            "rpId": party.id,
            "challenge": _encoded(_challenge(token)),
            "allowCredentials": _descriptors(known),
            "userVerification": "preferred",
            "timeout": SECOND_STEP_S * 1000,
        }
    )


@dataclass(frozen=True, slots=True)
class NewPasskey:
    """A passkey that a browser has made."""

    credential_id: bytes
    public_key: bytes
    count: int


async def verify_creation(party: RelyingParty, token: str, response: str) -> NewPasskey:
    """Return the passkey of a browser's response.

    Raises NotAuthenticated for what is not the answer to the options.
    """
    verified = await _verify("verify_registration_response", party, token, response)
    return NewPasskey(verified.credential_id, verified.credential_public_key, verified.sign_count)


def credential_id(response: str) -> bytes:
    """Return which passkey a response claims to come from. Raises NotAuthenticated."""
    try:
        document = json.loads(response[: PASSKEY_RESPONSE_CHARS + 1])
        text: str = document["rawId"]
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (ValueError, TypeError, KeyError, RecursionError):
        raise _refused() from None


async def verify_use(party: RelyingParty, token: str, response: str, public_key: bytes, count: int) -> int:
    """Return the passkey's new count of signatures.

    Raises NotAuthenticated, for a count that went back too.
    """
    verified = await _verify(
        "verify_authentication_response",
        party,
        token,
        response,
        credential_public_key=public_key,
        credential_current_sign_count=count,
    )
    new: int = verified.new_sign_count
    return new


async def _verify(function: str, party: RelyingParty, token: str, response: str, **more: Any) -> Any:
    if len(response) > PASSKEY_RESPONSE_CHARS:
        raise _refused()

    # By name and late: half a second and 25 MiB, which a process that sees no passkey does not need.
    webauthn = await asyncio.to_thread(import_module, "webauthn")

    def verified() -> Any:
        return getattr(webauthn, function)(
            credential=response,
            expected_challenge=_challenge(token),
            expected_rp_id=party.id,
            expected_origin=party.origin,
            **more,
        )

    try:
        return await asyncio.to_thread(verified)
    except Exception as error:  # its CBOR and key parsers raise whatever their input leads them to
        raise _refused() from error


def _challenge(token: str) -> bytes:
    """Return the challenge of a second step.

    It is used once, as the step is.
    """
    return sha256(b"launchbay passkey\0" + token.encode()).digest()


def _descriptors(ids: Iterable[bytes]) -> list[dict[str, str]]:
    return [{"type": "public-key", "id": _encoded(each)} for each in ids]


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _refused() -> NotAuthenticated:
    return NotAuthenticated("The passkey was not accepted.", "Try again, or use another factor.", code="WrongCode")
