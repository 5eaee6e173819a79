"""A command's connection: which server, as whom, in which organization. From options, variables and the profile."""

import importlib.util
import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import click
import msgspec
import platformdirs

from launchbay.cli.names import Names
from launchbay.client import Basic, Client, RefreshToken, Retries, Session, SessionToken
from launchbay.client.core import Authentication

# Profiles: which server, which organization, which output. One file in the configuration directory, readable by its
# owner only.

DEFAULT = "default"
OUTPUTS = ("table", "json", "yaml")


class Profile(msgspec.Struct, omit_defaults=True):
    """A server with what a user has chosen for it."""

    url: str = ""
    email: str = ""
    organization: str = ""  # name or id
    output: str = ""


class Configuration(msgspec.Struct):
    """All profiles, and the one in use."""

    current: str = DEFAULT
    profiles: dict[str, Profile] = {}


def directory() -> Path:
    """Return the directory of configuration: `LAUNCHBAY_CONFIG_DIR`, or the platform's own."""
    given = os.environ.get("LAUNCHBAY_CONFIG_DIR")
    return Path(given) if given else platformdirs.user_config_path("launchbay", appauthor=False)


def read_configuration() -> Configuration:
    """Return the profiles. Raises UsageError where the file cannot be read."""
    path = directory() / "config.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=Configuration)
    except FileNotFoundError:
        return Configuration()
    except (OSError, msgspec.MsgspecError) as error:
        raise click.UsageError(f"{path} cannot be read: {error}. Mend it, or remove it and log in again.") from error


def write_configuration(configuration: Configuration) -> None:
    """Keep the profiles."""
    write_private(directory() / "config.json", configuration)


def write_private(path: Path, value: Any) -> None:
    """Write JSON into a file that only its owner can read; whoever reads meanwhile sees the old one or the new one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # made with mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def chosen_name(given: str | None, configuration: Configuration) -> str:
    """Return the profile that is meant: the option, `LAUNCHBAY_PROFILE`, or the one in use."""
    return given or os.environ.get("LAUNCHBAY_PROFILE") or configuration.current


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


@dataclass
class Connection:
    """What every command that talks to a server has."""

    client: Client
    names: Names
    output: str
    profile: str = field(default="")


def connect(
    profile_name: str | None,
    organization: str | None,
    output: str | None,
    *,
    anonymous: bool = False,
    timeout_s: float = 30.0,
    retries: Retries | None = None,
) -> Connection:
    """Return the connection that the options mean. Raises UsageError where no server is named."""
    configuration = read_configuration()
    name = chosen_name(profile_name, configuration)
    profile = configuration.profiles.get(name, Profile())
    url = os.environ.get("LAUNCHBAY_URL") or profile.url
    if not url:
        raise click.UsageError(_no_server(name, configuration))
    try:
        client = Client(url, None if anonymous else _authentication(name), timeout_s=timeout_s, retries=retries)
    except ValueError as error:
        raise click.UsageError(f"{error}.") from error
    click.get_current_context().call_on_close(client.close)
    wanted = organization or os.environ.get("LAUNCHBAY_ORGANIZATION") or profile.organization
    chosen = output or os.environ.get("LAUNCHBAY_OUTPUT") or profile.output or OUTPUTS[0]
    if chosen not in OUTPUTS:
        raise click.UsageError(f"The output {chosen!r} is not known. Choose one of {', '.join(OUTPUTS)}.")
    return Connection(client, Names(client, wanted), chosen, name)


def _authentication(profile: str) -> Authentication:
    """Return who calls: variables win over what the profile keeps; nobody where there is neither."""
    environ = os.environ
    if environ.get("LAUNCHBAY_TOKEN"):
        token = environ["LAUNCHBAY_TOKEN"]
        return RefreshToken(token) if token.startswith("lbr_") else SessionToken(token)
    if environ.get("LAUNCHBAY_EMAIL") and environ.get("LAUNCHBAY_PASSWORD"):
        return Basic(environ["LAUNCHBAY_EMAIL"], environ["LAUNCHBAY_PASSWORD"])
    kept = store()
    secrets = kept.get(profile)
    if secrets is None or not secrets.refresh_token:
        return None
    known = secrets

    def renewed(session: Session) -> None:
        kept.put(profile, Secrets(known.refresh_token, known.token_id, session.token, session.expires_at_s))

    session = Session(known.session, known.session_expires_at_s) if known.session else None
    is_good = session is not None and session.expires_at_s > time.time()
    return RefreshToken(known.refresh_token, session if is_good else None, renewed)


def _no_server(name: str, configuration: Configuration) -> str:
    if configuration.profiles:
        known = ", ".join(sorted(configuration.profiles))
        return f"There is no profile '{name}'. Profiles: {known}. Make one with: launchbay login URL --profile {name}"
    return "No server is known yet. Log in first: launchbay login https://launchbay.example.org"
