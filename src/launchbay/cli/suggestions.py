"""Names that a shell may complete: asked of the server while the user waits, so quickly or not at all."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import click
from click.shell_completion import CompletionItem

from launchbay.cli.connection import Connection, connect
from launchbay.client import ClientError, Retries

PATIENCE_S = 2.0


def _applications(connection: Connection) -> Iterable[str]:
    return (each.name for each in connection.client.list_applications(connection.names.organization()))


def _environments(connection: Connection) -> Iterable[str]:
    return (each.name for each in connection.client.list_environments(connection.names.organization()))


def _instances(connection: Connection) -> Iterable[str]:
    return (each.name for each in connection.names.instances(None) if each.status != "Destroyed")


def _revisions(connection: Connection) -> Iterable[str]:
    for application in connection.client.list_applications(connection.names.organization()):
        for revision in connection.client.list_revisions(application.id):
            yield f"{application.name}/{revision.name}"


def _roles(connection: Connection) -> Iterable[str]:
    return (each.name for each in connection.client.list_roles(connection.names.organization()))


def _services(connection: Connection) -> Iterable[str]:
    return (each.name for each in connection.client.list_services(connection.names.organization()))


def _tokens(connection: Connection) -> Iterable[str]:
    return (each.label for each in connection.client.list_tokens())


def _users(connection: Connection) -> Iterable[str]:
    return (each.email for each in connection.client.list_users(connection.names.organization()))


def _workflows(connection: Connection, given: Mapping[str, Any]) -> Iterable[str]:
    """Return the workflows of the instance that stands before, in the same command."""
    instance = connection.names.instance(str(given.get("instance_id")))
    return connection.client.read_instance(instance).available_workflows


_NAMES: Mapping[str, Callable[[Connection], Iterable[str]]] = {
    "application": _applications,
    "environment": _environments,
    "instance": _instances,
    "revision": _revisions,
    "role": _roles,
    "service": _services,
    "token": _tokens,
    "user": _users,
}


def suggest(noun: str, ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the names of things of a kind that begin so; none where nobody is signed in or the server is away."""
    names: Iterable[str] = ()
    with suppress(ClientError, click.ClickException), ctx:
        given = ctx.params
        connection = connect(
            given.get("profile"), given.get("organization"), None, timeout_s=PATIENCE_S, retries=Retries(attempts=1)
        )
        found = _workflows(connection, given) if noun == "workflow" else _NAMES[noun](connection)
        names = sorted({name for name in found if name.startswith(incomplete)})
    return [CompletionItem(name) for name in names]


def completing(noun: str) -> dict[str, Any]:
    """Return what makes a parameter suggest names of a kind; nothing for kinds that have none."""
    return {"shell_complete": partial(suggest, noun)} if noun in _NAMES or noun == "workflow" else {}
