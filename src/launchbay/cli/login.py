"""Signing in and out, and profiles."""

import socket
import sys
from typing import Any
from urllib.parse import urlsplit

import click

from launchbay.cli.commands import token_of
from launchbay.cli.connection import (
    OUTPUTS,
    Profile,
    Secrets,
    chosen_name,
    read_configuration,
    store,
    write_configuration,
)
from launchbay.cli.lazy import HelpfulGroup, unknown_name
from launchbay.cli.names import Names
from launchbay.cli.output import CommandFailed, ExitCode, RemoteCommand, show
from launchbay.client import Basic, Client, ClientError, RefreshToken, Retries

_HERE = {"localhost", "127.0.0.1", "::1"}
_KEYS = ("url", "organization", "output")
_PROFILE = click.option("--profile", metavar="NAME", help="Which profile; one in use or 'default' otherwise.")


@click.command(cls=RemoteCommand)
@click.argument("url", required=False)
@click.option("--email", help="The e-mail address of your account; asked for without the option.")
@click.option("--password-stdin", is_flag=True, help="Read the password from the standard input.")
@click.option("--token", "with_token", is_flag=True, help="Give a refresh token from the page /refreshToken instead.")
@click.option("--organization", help="The organization that commands mean by default, by name or id.")
@_PROFILE
def login(url: str | None, profile: str | None, organization: str | None, **given: Any) -> None:
    """Sign in to a server, and keep a token for the commands that follow.

    URL is the server's address, such as https://launchbay.example.org; it can be left out the next time. The password
    is not kept: a refresh token is made with it, which `launchbay logout` revokes.
    """
    configuration = read_configuration()
    name = chosen_name(profile, configuration)
    known = configuration.profiles.get(name, Profile())
    address = url or known.url
    if not address:
        raise click.UsageError("Name the server: launchbay login https://launchbay.example.org")
    if "://" not in address:
        address = f"https://{address}"
    if address.startswith("http://") and urlsplit(address).hostname not in _HERE:
        click.echo(f"Warning: {address} is not encrypted; whoever is in between can read the password.", err=True)
    try:
        email, secrets = _with_token(address) if given["with_token"] else _with_password(address, known, given)
    except ValueError as error:
        raise click.UsageError(f"{error}.") from error
    with Client(address, RefreshToken(secrets.refresh_token)) as client:
        chosen = organization if organization is not None else known.organization if address == known.url else ""
        if chosen:
            Names(client, chosen).organization()
    kept = store()
    before = kept.get(name)
    if before is not None and before.token_id and known.url == address:
        _revoke(address, before)
    kept.put(name, secrets)
    configuration.profiles[name] = Profile(address, email, chosen, known.output)
    configuration.current = (
        name if profile or not configuration.profiles.get(configuration.current) else configuration.current
    )
    write_configuration(configuration)
    click.echo(
        f"Signed in to {address} as {email or 'the owner of the token'}. The token is kept in {kept.name}.", err=True
    )


def _with_password(address: str, known: Profile, given: dict[str, Any]) -> tuple[str, Secrets]:
    email = given["email"] or (known.email if not sys.stdin.isatty() else "")
    email = email or click.prompt("E-mail address", default=known.email or None, err=True)
    if given["password_stdin"]:
        password = sys.stdin.readline().rstrip("\n")
    else:
        password = click.prompt("Password", hide_input=True, err=True)
    label = f"launchbay on {socket.gethostname()}"[:100]
    with Client(address, Basic(email, password)) as client:
        client.list_organizations()  # a wrong password is told by this better than by the page
        token = token_of(client.generate_token(email=email, password=password, label=label))
        ours = [each for each in client.list_tokens() if each.label == label]
    newest = max(ours, key=lambda each: each.id, default=None)
    return email, Secrets(token, newest.id if newest else "")


def _with_token(address: str) -> tuple[str, Secrets]:
    if sys.stdin.isatty():
        click.echo(f"Generate a refresh token at {address.rstrip('/')}/refreshToken and paste it here.", err=True)
        token = click.prompt("Refresh token", hide_input=True, err=True).strip()
    else:
        token = sys.stdin.readline().strip()
    with Client(address, RefreshToken(token)) as client:
        client.list_organizations()
    return "", Secrets(token)


@click.command(cls=RemoteCommand)
@_PROFILE
def logout(profile: str | None) -> None:
    """Revoke the token of a profile and forget it."""
    configuration = read_configuration()
    name = chosen_name(profile, configuration)
    kept = store()
    secrets = kept.get(name)
    if secrets is None:
        click.echo(f"Nobody is signed in with the profile '{name}'.", err=True)
        return
    url = configuration.profiles.get(name, Profile()).url
    problem = _revoke(url, secrets) if secrets.token_id and url else None
    kept.delete(name)
    if problem is None:
        click.echo("Signed out.", err=True)
    else:
        click.echo(f"Signed out here. The token could not be revoked: {problem}", err=True)
        click.echo("Revoke it with: launchbay token revoke", err=True)


def _revoke(url: str, secrets: Secrets) -> ClientError | None:
    """Revoke the token; return what kept it from being so, which is no reason to keep it here."""
    try:
        with Client(url, RefreshToken(secrets.refresh_token), retries=Retries(attempts=1)) as client:
            client.revoke_token(secrets.token_id)
    except ClientError as error:
        return error
    return None


@click.group(cls=HelpfulGroup)
def profile() -> None:
    """Profiles: servers and organizations that commands can mean."""


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
    """Let commands mean this profile from now on."""
    configuration = read_configuration()
    _known(name, configuration.profiles)
    configuration.current = name
    write_configuration(configuration)


@profile.command("set")
@click.argument("key", type=click.Choice(_KEYS))
@click.argument("value")
@_PROFILE
def set_in_profile(key: str, value: str, profile: str | None) -> None:
    """Change something of a profile; an empty VALUE takes it away."""
    configuration = read_configuration()
    name = chosen_name(profile, configuration)
    _known(name, configuration.profiles)
    if key == "output" and value not in {"", *OUTPUTS}:
        raise click.UsageError(f"The output {value!r} is not known. Choose one of {', '.join(OUTPUTS)}.")
    setattr(configuration.profiles[name], key, value)
    write_configuration(configuration)


@profile.command("remove")
@click.argument("name")
def remove_profile(name: str) -> None:
    """Forget a profile and its token; `launchbay logout` revokes it first."""
    configuration = read_configuration()
    _known(name, configuration.profiles)
    del configuration.profiles[name]
    if configuration.current == name:
        configuration.current = next(iter(configuration.profiles), "default")
    store().delete(name)
    write_configuration(configuration)


def _known(name: str, profiles: dict[str, Profile]) -> None:
    if name not in profiles:
        raise CommandFailed(unknown_name(f"profile '{name}'", name, list(profiles)), ExitCode.NOT_FOUND)
