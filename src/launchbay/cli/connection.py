"""A command's connection: server, credentials and organization, from options, variables and the profile."""

import importlib.util
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec
import platformdirs

from launchbay.cli.exit_codes import ExitCode
from launchbay.cli.names import Names
from launchbay.cli.output import CommandFailed, printable, with_local_times
from launchbay.client import Basic, Client, ClientError, RefreshToken, Retries, Session, SessionToken
from launchbay.client.core import Authentication

DEFAULT = "default"
OUTPUTS = ("table", "json", "yaml")


class Profile(msgspec.Struct, omit_defaults=True):
    """A server, and what its user chose for it."""

    url: str = ""
    email: str = ""
    organization: str = ""  # name or id
    output: str = ""


class Configuration(msgspec.Struct):
    """All profiles and the name of the current one: the file `config.json`."""

    current: str = DEFAULT
    profiles: dict[str, Profile] = {}


def directory() -> Path:
    """Return the configuration directory: `LAUNCHBAY_CONFIG_DIR`, or the platform's default."""
    given = os.environ.get("LAUNCHBAY_CONFIG_DIR")
    return Path(given) if given else platformdirs.user_config_path("launchbay", appauthor=False)


def read_configuration() -> Configuration:
    """Return the profiles. Raises UsageError if the file can't be read."""
    path = directory() / "config.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=Configuration)
    except FileNotFoundError:
        return Configuration()
    except (OSError, msgspec.MsgspecError) as error:
        raise click.UsageError(f"Can't read {path}: {error}. Fix it, or delete it and log in again.") from error


def write_configuration(configuration: Configuration) -> None:
    write_private(directory() / "config.json", configuration)


def write_private(path: Path, value: Any) -> None:
    """Replace a file, atomically, with JSON that only its owner can read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # with mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def chosen_name(given: str | None, configuration: Configuration) -> str:
    """Return the name of the profile: the option, `LAUNCHBAY_PROFILE`, or the current one."""
    return given or os.environ.get("LAUNCHBAY_PROFILE") or configuration.current


_SAID_S = 2.0  # shorter pauses between attempts pass unnoticed
_SERVICE = "launchbay"


class Secrets(msgspec.Struct, omit_defaults=True):
    """Credentials for one server; times are seconds since the Unix epoch."""

    refresh_token: str = ""
    token_id: str = ""
    session: str = ""
    session_expires_at_s: float = 0.0


class FileStore:
    """Secrets by profile in a file with mode 0600 in the configuration directory; `name` says where."""

    def __init__(self) -> None:
        self._path = directory() / "credentials.json"
        self.name = str(self._path)

    def get(self, profile: str) -> Secrets | None:
        return self._all().get(profile)

    def put(self, profile: str, secrets: Secrets) -> None:
        write_private(self._path, {**self._all(), profile: secrets})

    def delete(self, profile: str) -> None:
        stored = self._all()
        if stored.pop(profile, None) is not None:
            write_private(self._path, stored)

    def _all(self) -> dict[str, Secrets]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, Secrets])
        except (FileNotFoundError, msgspec.MsgspecError):
            return {}  # after a login there are new credentials


class KeyringStore:
    """Secrets by profile in the system's keyring, through the library `keyring`."""

    name = "the system's keyring"

    def __init__(self, keyring: Any) -> None:  # Any: the library is optional
        self._keyring = keyring

    def get(self, profile: str) -> Secrets | None:
        """Return the secrets of a profile, or None if they are missing or malformed."""
        text = self._ask("get_password", profile)
        try:
            return None if text is None else msgspec.json.decode(text, type=Secrets)
        except msgspec.MsgspecError:
            return None

    def put(self, profile: str, secrets: Secrets) -> None:
        self._ask("set_password", profile, msgspec.json.encode(secrets).decode())

    def delete(self, profile: str) -> None:
        if self._ask("get_password", profile) is not None:
            self._ask("delete_password", profile)

    def _ask(self, method: str, *arguments: str) -> Any:
        """Call the keyring. Raises ClickException if it is locked or unavailable."""
        try:
            return getattr(self._keyring, method)(_SERVICE, *arguments)
        except self._keyring.errors.KeyringError as error:
            message = f"Can't use the keyring: {error}. Unlock it, or set LAUNCHBAY_KEYRING=off to use a file."
            raise click.ClickException(message) from error


def store() -> FileStore | KeyringStore:
    """Return the store of secrets: the system's keyring, or a file if it has no keyring or `LAUNCHBAY_KEYRING=off`."""
    if os.environ.get("LAUNCHBAY_KEYRING") == "off" or importlib.util.find_spec("keyring") is None:
        return FileStore()
    keyring = importlib.import_module("keyring")
    # The library's own placeholders for "no keyring" have priorities below 1.
    return KeyringStore(keyring) if keyring.get_keyring().priority >= 1 else FileStore()


@dataclass
class Connection:
    """The client of a command, and what the command needs with it."""

    client: Client
    names: Names
    output: str
    profile: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """A server with credentials, and what the user chose for it."""

    url: str
    authentication: Authentication
    organization: str  # name or ID; "" if none was chosen
    output: str
    profile: str


def choose_target(
    profile_name: str | None, organization: str | None, output: str | None = None, *, anonymous: bool = False
) -> Target:
    """Return what options, variables and the profile say.

    Raises UsageError if no server is configured.
    """
    configuration = read_configuration()
    name = chosen_name(profile_name, configuration)
    profile = configuration.profiles.get(name, Profile())
    url = os.environ.get("LAUNCHBAY_URL") or profile.url
    if not url:
        raise click.UsageError(_no_server(name, configuration))
    return Target(
        url,
        None if anonymous else _authentication(name),
        organization or os.environ.get("LAUNCHBAY_ORGANIZATION") or profile.organization,
        output or os.environ.get("LAUNCHBAY_OUTPUT") or profile.output or OUTPUTS[0],
        name,
    )


def connect(
    profile_name: str | None,
    organization: str | None,
    output: str | None,
    *,
    anonymous: bool = False,
    timeout_s: float = 30.0,
    retries: Retries | None = None,
    override_freeze: str | None = None,
) -> Connection:
    """Return a connection for these options. Raises UsageError if no server is configured."""
    target = choose_target(profile_name, organization, output, anonymous=anonymous)
    try:
        client = Client(
            target.url,
            target.authentication,
            timeout_s=timeout_s,
            retries=retries or Retries(notify=_say_pause),
            on_warning=say_warning,
            override_freeze=override_freeze,
        )
    except ValueError as error:
        raise click.UsageError(f"{error}.") from error
    click.get_current_context().call_on_close(client.close)
    return Connection(client, Names(client, target.organization), validate_output(target.output), target.profile)


def say_warning(text: str) -> None:
    """Print what a server says of something without effect."""
    click.echo(printable(f"Warning: {with_local_times(text)}"), err=True)


def _say_pause(error: ClientError, pause_s: float) -> None:
    """Say why a command takes long."""
    if pause_s >= _SAID_S:
        click.echo(printable(f"{error} Trying again in {pause_s:.0f} s."), err=True)


def validate_output(output: str) -> str:
    """Return an output format. Raises UsageError if it is unknown."""
    if output not in OUTPUTS:
        raise click.UsageError(f"Unknown output format {output!r}. Use one of: {', '.join(OUTPUTS)}.")
    return output


def _authentication(profile: str) -> Authentication:
    """Return credentials from variables, or else from the profile; None if neither has any."""
    environ = os.environ
    if environ.get("LAUNCHBAY_TOKEN"):
        token = environ["LAUNCHBAY_TOKEN"]
        try:
            return RefreshToken(token) if token.startswith("lbr_") else SessionToken(token)
        except ValueError as error:
            raise CommandFailed(f"LAUNCHBAY_TOKEN isn't a token. {error}.", ExitCode.NOT_AUTHENTICATED) from error
    if environ.get("LAUNCHBAY_EMAIL") and environ.get("LAUNCHBAY_PASSWORD"):
        return Basic(environ["LAUNCHBAY_EMAIL"], environ["LAUNCHBAY_PASSWORD"])
    if "LAUNCHBAY_TOKEN" in environ:
        # Perhaps the secret of a job of CI that isn't set; the stored login may be somebody else's.
        raise CommandFailed(
            "LAUNCHBAY_TOKEN is empty. Set it to a token, or unset it to use the stored login.",
            ExitCode.NOT_AUTHENTICATED,
        )
    secrets_store = store()
    secrets = secrets_store.get(profile)
    if secrets is None or not secrets.refresh_token:
        return None
    token, token_id = secrets.refresh_token, secrets.token_id

    def renewed(session: Session) -> None:
        secrets_store.put(profile, Secrets(token, token_id, session.token, session.expires_at_s))

    is_valid = secrets.session and secrets.session_expires_at_s > time.time()
    return RefreshToken(token, Session(secrets.session, secrets.session_expires_at_s) if is_valid else None, renewed)


def _no_server(name: str, configuration: Configuration) -> str:
    if configuration.profiles:
        known = ", ".join(sorted(configuration.profiles))
        return f"Unknown profile '{name}'. Profiles: {known}. To add it, run: launchbay login URL --profile {name}"
    return "No server is configured. Sign in first: launchbay login https://launchbay.example.org"
