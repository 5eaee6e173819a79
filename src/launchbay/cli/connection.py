"""A command's connection: which server, as whom, in which organization. From options, variables and the profile."""

import os
import time
from dataclasses import dataclass, field

import click

from launchbay.cli.credentials import Secrets, store
from launchbay.cli.names import Names
from launchbay.cli.profiles import OUTPUTS, Configuration, Profile, chosen_name, read_configuration
from launchbay.client import Basic, Client, RefreshToken, Retries, Session, SessionToken
from launchbay.client.core import Authentication


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
