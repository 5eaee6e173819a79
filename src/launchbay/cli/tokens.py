"""`token create`: an access token, or a refresh token."""

from typing import Any

import click

from launchbay.cli.commands import connected, sharing_options, show_token, token_of
from launchbay.cli.lazy import HELP_OPTIONS
from launchbay.cli.output import RemoteCommand, show
from launchbay.client import Operations


def _create(  # one for each option
    *,
    name: str | None,
    scope: tuple[str, ...],
    days: int | None,
    owner: str | None,
    email: str | None,
    password: str | None,
    label: str | None,
    **given: Any,
) -> None:
    connection = connected(given, anonymous=email is not None)
    if email is not None:
        if scope or owner or name or days:
            raise click.UsageError("--email creates a refresh token, which has no --name, --scope, --days or --owner.")
        password = password or click.prompt("Password", hide_input=True, err=True)
        page = connection.client.generate_token(email=email, password=password, label=label or "")
        show_token(connection, token_of(page))
        return
    organization = connection.names.organization()
    if owner is not None:
        accounts = connection.client.list_service_accounts(organization)
        owner = next((each.id for each in accounts if owner in {each.id, each.name}), owner)
    chosen: dict[str, Any] = {"name": name or label, "scope": list(scope) or None, "days": days, "owner": owner}
    call = Operations.create_access_token.call(
        organization, **{option: value for option, value in chosen.items() if value is not None}
    )
    created = connection.client.send(call.with_returns(Any))
    show(created["token"] if connection.output == "table" else created, connection.output)


create = RemoteCommand(
    "create",
    callback=_create,
    short_help="Create an access token and show it once.",
    help="Create an access token for yourself or a service account, and show it once.\n\n"
    "With --email, sign in and show a new refresh token instead.",
    params=[
        click.Option(["--name"], help="Name of the token, such as the program that uses it."),
        click.Option(
            ["--scope"],
            multiple=True,
            metavar="ENTRY",
            help="An entry of a role, such as 'Read: [/*]'. Repeatable. Default: all that its owner may do.",
        ),
        click.Option(["--days"], type=int, help="Days until it expires, 1 to 366. Default: 90."),
        click.Option(["--owner"], metavar="ACCOUNT", help="Service account that it is for: name or ID. Default: you."),
        click.Option(["--email"], help="Sign in with this address, and show a refresh token."),
        click.Option(["--password"], help="Password of --email. Prompted for if omitted."),
        click.Option(["--label"], help="Label of the refresh token."),
        *sharing_options(),
    ],
    context_settings=HELP_OPTIONS,
)
