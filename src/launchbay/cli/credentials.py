"""Where tokens are kept: the system's keyring where there is one, a file that only its owner can read otherwise."""

import importlib
import importlib.util
import os
from typing import Any, Protocol

import click
import msgspec

from launchbay.cli.profiles import directory, write_private

_SERVICE = "launchbay"


class Secrets(msgspec.Struct, omit_defaults=True):
    """What proves who somebody is at one server; times are seconds since the Unix epoch."""

    refresh_token: str = ""
    token_id: str = ""
    session: str = ""
    session_expires_at_s: float = 0.0


class Store(Protocol):
    """A place for secrets, by profile."""

    name: str

    def get(self, profile: str) -> Secrets | None:
        """Return the secrets of a profile."""
        ...

    def put(self, profile: str, secrets: Secrets) -> None:
        """Keep them."""
        ...

    def delete(self, profile: str) -> None:
        """Forget them."""
        ...


class FileStore:
    """A file with mode 0600 in the configuration directory."""

    def __init__(self) -> None:
        self._path = directory() / "credentials.json"
        self.name = str(self._path)

    def get(self, profile: str) -> Secrets | None:
        """Return the secrets of a profile."""
        return self._all().get(profile)

    def put(self, profile: str, secrets: Secrets) -> None:
        """Keep them."""
        write_private(self._path, {**self._all(), profile: secrets})

    def delete(self, profile: str) -> None:
        """Forget them."""
        kept = self._all()
        if kept.pop(profile, None) is not None:
            write_private(self._path, kept)

    def _all(self) -> dict[str, Secrets]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, Secrets])
        except (FileNotFoundError, msgspec.MsgspecError):
            return {}  # broken credentials are none: logging in makes new ones


class KeyringStore:
    """The system's keyring, through the library `keyring`."""

    name = "the system's keyring"

    def __init__(self, keyring: Any) -> None:  # Any: the library is there in some installations only
        self._keyring = keyring

    def get(self, profile: str) -> Secrets | None:
        """Return the secrets of a profile; what cannot be read is none: logging in makes new ones."""
        text = self._ask("get_password", profile)
        try:
            return None if text is None else msgspec.json.decode(text, type=Secrets)
        except msgspec.MsgspecError:
            return None

    def put(self, profile: str, secrets: Secrets) -> None:
        """Keep them."""
        self._ask("set_password", profile, msgspec.json.encode(secrets).decode())

    def delete(self, profile: str) -> None:
        """Forget them."""
        if self._ask("get_password", profile) is not None:
            self._ask("delete_password", profile)

    def _ask(self, what: str, *words: str) -> Any:
        """Ask the keyring. Raises ClickException with what to do when it is locked or away."""
        try:
            return getattr(self._keyring, what)(_SERVICE, *words)
        except self._keyring.errors.KeyringError as error:
            message = f"The keyring does not answer: {error}. Unlock it, or set LAUNCHBAY_KEYRING=off to use a file."
            raise click.ClickException(message) from error


def store() -> Store:
    """Return where secrets are kept here: `LAUNCHBAY_KEYRING=off` keeps them in the file in any case."""
    if os.environ.get("LAUNCHBAY_KEYRING") == "off" or importlib.util.find_spec("keyring") is None:
        return FileStore()
    keyring = importlib.import_module("keyring")
    # Below 1 are the library's own stand-ins for "no keyring here".
    return KeyringStore(keyring) if keyring.get_keyring().priority >= 1 else FileStore()
