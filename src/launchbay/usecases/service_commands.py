"""Commands on service instances (reference §4, Service instances)."""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from launchbay.auth.audit import entered_once
from launchbay.auth.permissions import Actor, Permission
from launchbay.errors import FieldErrors
from launchbay.limits import COMMAND_REPORTS
from launchbay.service_types.contract import ServiceCall, checked_arguments
from launchbay.service_types.secrets import ServiceSeal, open_secrets
from launchbay.store.database import Connection
from launchbay.store.services import Service
from launchbay.usecases.desk import Desk
from launchbay.usecases.services import record

_COMMAND_FIELD = "commandname"


async def run_command(
    desk: Desk,
    actor: Actor,
    service_id: str,
    command_name: str,
    arguments: Mapping[str, Any],
    *,
    include_intermediate: bool,
) -> list[Mapping[str, Any]]:
    """Carry out a command and return its results, the final one last; the intermediate ones only if asked for.

    Raises FieldErrors for an unknown command and for arguments that do not fit, by argument.
    """
    async with desk.database.connection() as connection:
        service = await desk.lookups.on(connection, actor).service(service_id, Permission.RUN_SERVICE_COMMAND)
        kind = desk.service_types.find(service.type_id)
        command = None if kind is None else kind.commands.get(command_name)
        if kind is None or command is None:
            known = ", ".join(kind.commands) if kind is not None and kind.commands else "none"
            raise FieldErrors(
                {_COMMAND_FIELD: [f"This service has no command {command_name[:80]!r}. Commands: {known}."]}
            )
        checked = checked_arguments(command, arguments)
        secrets = await open_secrets(desk.secret_key, connection, service.id)
    database = desk.database
    entry = _entry(desk, actor, service, command_name, checked)
    reports: deque[Mapping[str, Any]] = deque(maxlen=COMMAND_REPORTS)
    call = ServiceCall(
        service_id=service.id,
        organization_id=service.organization_id,
        parameters={**msgspec.json.decode(service.parameters), **secrets},
        arguments=checked,
        transaction=entered_once(database, entry) if command.changes else database.transaction,
        report=reports.append,
        seal=ServiceSeal(desk.secret_key, service.id),
    )
    # A command is a transaction of its own, or several where it waits in between.
    final = await kind.run(command_name, call)
    if not include_intermediate:
        return [final]
    # With intermediate results there is more than one item (reference §4): a command that reports none has begun.
    return [*(reports or [{}]), final]


def _entry(
    desk: Desk, actor: Actor, service: Service, command: str, arguments: Mapping[str, Any]
) -> Callable[[Connection], Awaitable[None]]:
    """Return what writes the audit entry of a command."""

    async def write(connection: Connection) -> None:
        after = {"command": command, "arguments": desk.audit.fingerprints(arguments)}
        key = (service.id, service.organization_id)
        await record(desk, connection, actor, "run_service_command", key, after=after)

    return write
