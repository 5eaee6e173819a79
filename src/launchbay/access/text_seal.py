"""Seals secrets inside of stored texts (`model/redaction.py`), for one organization.

The same secret becomes the same token, so that documents can be compared without opening them.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode

from launchbay.access.secret_key import SealBroken, SecretKey
from launchbay.model import redaction


class TextSeal:
    """Makes tokens and opens them."""

    def __init__(self, key: SecretKey, organization_id: str) -> None:
        self._key = key
        self._purpose = text_purpose(organization_id)

    def token(self, kind: str, text: str) -> str:
        """Return the token for a text; `kind` is one of `sealed_text`."""
        sealed = self._key.seal_alike(f"{kind}{text}".encode("utf-8", "surrogatepass"), self._purpose)
        return redaction.token(urlsafe_b64encode(sealed).decode("ascii").rstrip("="))

    def open(self, token: str) -> tuple[str, str] | None:
        """Return kind and text of a token, None for what only looks like one."""
        held = redaction.held(token)
        try:
            sealed = urlsafe_b64decode(held + "=" * (-len(held) % 4))
            opened = self._key.open(sealed, self._purpose).decode("utf-8", "surrogatepass")
        except (ValueError, SealBroken):
            return None
        return opened[:1], opened[1:]


def text_purpose(organization_id: str) -> str:
    """Return what tokens of an organization are sealed for."""
    return f"texts of {organization_id}"
