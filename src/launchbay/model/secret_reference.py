"""References of steps to secrets of providers: `provider/path#key` (decision 0196).

A path may have parameters, as those of URLs, for what the provider makes: `bao/pki/issue/web?common_name=shop.example`.
"""

from typing import NamedTuple

from launchbay.limits import STEP_SECRETS


class SecretReference(NamedTuple):
    """The providing service, the path with its parameters, and the key, or ""."""

    provider: str
    path: str
    key: str

    @property
    def within(self) -> str:
        """Return the reference without its provider and parameters, which may differ each time."""
        place = self.path.partition("?")[0]
        return f"{place}#{self.key}" if self.key else place

    def __str__(self) -> str:
        return f"{self.provider}/{self.within}"


def parse_secret_reference(text: object) -> SecretReference:
    """Return the parts of a reference. Raises ValueError with a sentence."""
    if isinstance(text, str) and text.isprintable():
        place, mark, key = text.partition("#")
        provider, _, path = place.partition("/")
        if provider and path.strip("/") and bool(mark) == bool(key):
            return SecretReference(provider, path.strip("/"), key)
    raise ValueError("a secret is provider/path#key, such as vault/secret/shop#password, or provider/path for all keys")


def reference_in(text: str) -> SecretReference | None:
    """Return the reference that a text is, or None for a name."""
    try:
        return parse_secret_reference(text)
    except ValueError:
        return None


def secrets_problem(value: object) -> str | None:
    """Return what is wrong with the value of a step's `secrets`, or None."""
    if not isinstance(value, dict) or not value:
        return "expected a map from names to secrets, such as {password: vault/secret/shop#password}"
    if len(value) > STEP_SECRETS:
        return f"a step has at most {STEP_SECRETS} secrets"
    try:
        for each in value.values():
            parse_secret_reference(each)
    except ValueError as error:
        return str(error)
    return None
