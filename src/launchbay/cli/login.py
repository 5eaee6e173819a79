"""`launchbay login`, `logout` and `profile`."""

import socket
import sys
from typing import Any
from urllib.parse import urlsplit

import click

from launchbay.cli.commands import token_of
from launchbay.cli.connection import (
    DEFAULT,
    OUTPUTS,
    Profile,
    Secrets,
    chosen_name,
    read_configuration,
    store,
    validate_output,
    write_configuration,
)
from launchbay.cli.exit_codes import ExitCode
from launchbay.cli.lazy import HelpfulGroup, unknown_name
from launchbay.cli.names import Names
from launchbay.cli.output import CommandFailed, RemoteCommand, show
from launchbay.client import Basic, Client, ClientError, NotAllowed, RefreshToken, Retries

_HERE = {"localhost", "127.0.0.1", "::1"}
_KEYS = ("url", "organization", "output")
_PROFILE = click.option("--profile", metavar="NAME", help="Use this profile. Default: the current one.")


@click.command(cls=RemoteCommand)
@click.argument("url", required=False)
@click.option("--email", help="Email address of your account. Prompted for if omitted.")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
@click.option("--token", "with_token", is_flag=True, help="Sign in with a refresh token from the page /refreshToken.")
@click.option("--organization", help="Default organization of commands: name or ID.")
@_PROFILE
def login(url: str | None, profile: str | None, organization: str | None, **given: Any) -> None:
    """Sign in to a server, and store a token for later commands.

    URL is the server's address, such as https://launchbay.example.org. You can omit it when you sign in again. The
    password isn't stored. It creates a refresh token, which `launchbay logout` revokes.
    """
    configuration = read_configuration()
    name = chosen_name(profile, configuration)
    known = configuration.profiles.get(name, Profile())
    address = url or known.url
    if not address:
        raise click.UsageError("Pass the server's address: launchbay login https://launchbay.example.org")
    if "://" not in address:
        address = f"https://{address}"
    if address.startswith("http://") and urlsplit(address).hostname not in _HERE:
        click.echo(
            f"Warning: the connection to {address} isn't encrypted. Others on the network can read the password.",
            err=True,
        )
    try:
        email, secrets = _with_token(address) if given["with_token"] else _with_password(address, known, given)
    except ValueError as error:
        raise click.UsageError(f"{error}.") from error
    except (ClientError, CommandFailed):
        current = configuration.profiles.get(configuration.current)
        if current is not None and configuration.current != name:  # a script may go on, to the wrong server
            click.echo(
                f"Commands still use the profile '{configuration.current}' at {current.url}. "
                f"To choose the server in a script, pass --profile or set LAUNCHBAY_URL.",
                err=True,
            )
        raise
    with Client(address, RefreshToken(secrets.refresh_token)) as client:
        chosen = organization if organization is not None else known.organization if address == known.url else ""
        if chosen:
            Names(client, chosen).organization()
    secrets_store = store()
    before = secrets_store.get(name)
    if before is not None and before.token_id and known.url == address:
        _revoke(address, before)
    secrets_store.put(name, secrets)
    configuration.profiles[name] = Profile(address, email, chosen, known.output)
    former = configuration.current
    if profile or former not in configuration.profiles:
        configuration.current = name
    write_configuration(configuration)
    user = email or "the owner of the token"
    click.echo(f"Signed in to {address} as {user}. The token is stored in {secrets_store.name}.", err=True)
    if known.url and known.url != address:
        click.echo(
            f"This replaces the profile '{name}' for {known.url}. "
            "To use both servers, sign in to one with --profile NAME.",
            err=True,
        )
    if former != configuration.current and former in configuration.profiles:
        click.echo(f"Commands now use the profile '{name}'. To go back: launchbay profile use {former}", err=True)


def _with_password(address: str, known: Profile, given: dict[str, Any]) -> tuple[str, Secrets]:
    email = given["email"] or (known.email if not sys.stdin.isatty() else "")
    email = email or click.prompt("Email address", default=known.email or None, err=True)
    if given["password_stdin"]:
        password = sys.stdin.readline().rstrip("\n")
    else:
        password = click.prompt("Password", hide_input=True, err=True)
    try:
        return email, _token(address, email, password)
    except NotAllowed as error:
        if not any(_CHOOSE_PAGE in message for message in error.messages):
            raise
        if given["password_stdin"]:
            advice = f"Run this command without --password-stdin, or open {address.rstrip('/')}/console/newPassword"
            raise CommandFailed(f"{error.messages[0]}\n{advice}", ExitCode.NOT_ALLOWED) from error
    click.echo("Somebody else chose this password. Choose your own.", err=True)
    own = click.prompt("New password", hide_input=True, confirmation_prompt=True, err=True)
    with Client(address, Basic(email, password)) as client:
        client.change_password(current_password=password, new_password=own)
    return email, _token(address, email, own)


_CHOOSE_PAGE = "/console/newPassword"  # in the page's refusal of a password that somebody else chose


def _token(address: str, email: str, password: str) -> Secrets:
    label = f"launchbay on {socket.gethostname()}"[:100]
    with Client(address, Basic(email, password)) as client:
        client.list_organizations()  # a wrong password gets a better message here than from the page
        token = token_of(client.generate_token(email=email, password=password, label=label))
        ours = [each for each in client.list_tokens() if each.label == label]
    newest = max(ours, key=lambda each: each.id, default=None)
    return Secrets(token, newest.id if newest else "")


def _with_token(address: str) -> tuple[str, Secrets]:
    if sys.stdin.isatty():
        click.echo(f"Create a refresh token at {address.rstrip('/')}/refreshToken and paste it here.", err=True)
        token = click.prompt("Refresh token", hide_input=True, err=True).strip()
    else:
        token = sys.stdin.readline().strip()
    with Client(address, RefreshToken(token)) as client:
        client.list_organizations()
    return "", Secrets(token)


@click.command(cls=RemoteCommand)
@_PROFILE
def logout(profile: str | None) -> None:
    """Revoke the token of a profile and delete it."""
    configuration = read_configuration()
    name = chosen_name(profile, configuration)
    secrets_store = store()
    secrets = secrets_store.get(name)
    if secrets is None:
        click.echo(f"You aren't signed in with the profile '{name}'.", err=True)
        return
    url = configuration.profiles.get(name, Profile()).url
    problem = _revoke(url, secrets) if secrets.token_id and url else None
    secrets_store.delete(name)
    if problem is None:
        click.echo("Signed out.", err=True)
    else:
        click.echo(f"Signed out on this machine. Can't revoke the token: {problem}", err=True)
        click.echo(f"To revoke it, sign in again and run: launchbay token revoke {secrets.token_id}", err=True)


def _revoke(url: str, secrets: Secrets) -> ClientError | None:
    """Revoke the token, and return the error if that fails: it is deleted here in any case."""
    try:
        with Client(url, RefreshToken(secrets.refresh_token), retries=Retries(attempts=1)) as client:
            client.revoke_token(secrets.token_id)
    except ClientError as error:
        return error
    return None


@click.group(cls=HelpfulGroup)
def profile() -> None:
    """Manage profiles: server, organization, output format."""


@profile.command("list")
@click.option("-o", "--output", type=click.Choice(OUTPUTS), default="table")
def list_profiles(output: str) -> None:
    """List the profiles."""
    configuration = read_configuration()
    rows = [
        {
            "name": name,
            "current": name == configuration.current,
            **{key: getattr(each, key) for key in ("url", "email", "organization")},
        }
        for name, each in configuration.profiles.items()
    ]
    show(rows, output)


@profile.command("use")
@click.argument("name")
def use_profile(name: str) -> None:
    """Make this profile the current one."""
    configuration = read_configuration()
    _known(name, configuration.profiles)
    configuration.current = name
    write_configuration(configuration)


@profile.command("set")
@click.argument("key", type=click.Choice(_KEYS))
@click.argument("value")
@_PROFILE
def set_in_profile(key: str, value: str, profile: str | None) -> None:
    """Change a profile. An empty VALUE removes the setting."""
    configuration = read_configuration()
    name = chosen_name(profile, configuration)
    _known(name, configuration.profiles)
    if key == "output" and value:
        validate_output(value)
    setattr(configuration.profiles[name], key, value)
    write_configuration(configuration)


@profile.command("remove")
@click.argument("name")
def remove_profile(name: str) -> None:
    """Delete a profile and its token. To revoke the token first, run `launchbay logout`."""
    configuration = read_configuration()
    _known(name, configuration.profiles)
    del configuration.profiles[name]
    if configuration.current == name:
        configuration.current = next(iter(configuration.profiles), DEFAULT)
    store().delete(name)
    write_configuration(configuration)


def _known(name: str, profiles: dict[str, Profile]) -> None:
    if name not in profiles:
        raise CommandFailed(unknown_name(f"profile '{name}'", name, list(profiles)), ExitCode.NOT_FOUND)
