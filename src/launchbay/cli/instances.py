"""Commands about instances that are no single operation."""

from typing import Any

import click

from launchbay.cli.commands import connected, sharing_options, waiting_options
from launchbay.cli.following import progress_for_terminal, wait_until_final
from launchbay.cli.output import RemoteCommand, show
from launchbay.client.types import InstanceSummary

_CONTEXT = {"help_option_names": ["-h", "--help"]}


def _list_all(**given: Any) -> None:
    with_all, application, environment, status = (
        given.pop(name) for name in ("all_of_them", "application", "environment", "status")
    )
    connection = connected(given)
    names, client = connection.names, connection.client
    found: list[InstanceSummary] = []
    if application is not None:
        found = list(client.list_application_instances.each(names.application(application), status=status))
    elif environment is None:
        found = [each for each in names.instances(None) if status in {None, each.status}]
    if environment is not None:
        place = names.environment(environment)
        if application is None:
            found = list(client.list_environment_instances.each(place, status=status))
        found = [each for each in found if each.environment == place]
    if not with_all and status is None:
        found = [each for each in found if each.status != "Destroyed"]
    applications = {each.id: each.name for each in client.list_applications(names.organization())}
    environments = {each.id: each.name for each in client.list_environments(names.organization())}
    rows = [
        {
            "id": each.id,
            "name": each.name,
            "status": each.status,
            "application": applications.get(each.application, each.application),
            "environment": environments.get(each.environment, each.environment),
        }
        for each in found
    ]
    show(rows, connection.output)


list_all = RemoteCommand(
    "list",
    callback=_list_all,
    short_help="Lists instances of the organization.",
    help="Lists instances of the organization, those of an application or of an environment.",
    params=[
        click.Option(["--application"], help="Only of this application.", metavar="APPLICATION"),
        click.Option(["--environment"], help="Only in this environment.", metavar="ENVIRONMENT"),
        click.Option(["--status"], help="Only in this status."),
        click.Option(["-a", "--all", "all_of_them"], is_flag=True, help="Destroyed ones too."),
        *sharing_options(),
    ],
    context_settings=_CONTEXT,
)


def _wait(instance: str, until: tuple[str, ...], timeout: float | None, **given: Any) -> None:
    connection = connected(given)
    wanted = until or ("Running", "Destroyed")
    number = connection.names.instance(instance)
    document = wait_until_final(connection.client, number, timeout, progress_for_terminal(), after=None, until=wanted)
    show({"id": document.id, "name": document.name, "status": document.status}, connection.output)


wait = RemoteCommand(
    "wait",
    callback=_wait,
    short_help="Waits for an instance, showing its steps.",
    help="Waits until nothing is under way on an instance, showing its steps. A failure ends it with exit code 1.",
    params=[
        click.Argument(["instance"], metavar="INSTANCE"),
        click.Option(
            ["--until"],
            multiple=True,
            metavar="STATUS",
            help="The status to wait for; may be repeated. [default: Running or Destroyed]",
        ),
        *waiting_options(always=True),
        *sharing_options(),
    ],
    context_settings=_CONTEXT,
)
