"""`builtin:shared_instances_catalog`: running instances that launches use instead of fresh submodules (language §7)."""

from collections.abc import Mapping
from typing import Any

import msgspec

from launchbay.errors import Conflict, FieldErrors
from launchbay.ids import is_id
from launchbay.limits import SHARED_INSTANCES
from launchbay.model.types import BOOL, STRING, MapType
from launchbay.service_types.contract import (
    CommandArgument,
    FieldMessages,
    ParameterScope,
    ServiceCall,
    ServiceCommand,
    ServiceParameter,
    command_pins,
)
from launchbay.store import services
from launchbay.store.database import Connection

SHARED_INSTANCES_CATALOG = "builtin:shared_instances_catalog"
CATALOG = "configuration.shared-instances"
_INTERFACE = "shared-instances"
_SHOWN = 20


class SharedInstances:
    """A map from revision to instance, which commands change entry by entry."""

    id = SHARED_INSTANCES_CATALOG
    name = "Shared instances catalog"
    parameters: Mapping[str, ServiceParameter] = {
        CATALOG: ServiceParameter(MapType(STRING, STRING), "Revision id to the id of the instance that stands for it."),
    }
    commands: Mapping[str, ServiceCommand] = {
        "add": ServiceCommand(
            _INTERFACE,
            "Shares an instance under a revision, in place of the one that was shared so before.",
            arguments={
                "revisionId": CommandArgument(STRING, "A revision of the instance's application.", required=True),
                "instanceId": CommandArgument(STRING, "The instance to share.", required=True),
            },
            results={"revisionId": STRING, "instanceId": STRING},
        ),
        "remove": ServiceCommand(
            _INTERFACE,
            "Shares an instance no longer.",
            arguments={"revisionId": CommandArgument(STRING, "The revision that it is shared under.", required=True)},
            results={"removed": BOOL},
        ),
        "list": ServiceCommand(
            _INTERFACE, "Lists what is shared.", results={"instances": MapType(STRING, STRING)}, changes=False
        ),
    }
    interfaces = command_pins(commands)

    async def check(self, scope: ParameterScope, parameters: Mapping[str, Any]) -> FieldMessages:
        """Check the entries that are new: each a revision and an instance of one application of the organization.

        Entries that were there before may have outlived what they name.
        """
        catalog: Mapping[str, str] = parameters.get(CATALOG, {})
        if len(catalog) > SHARED_INSTANCES:
            return {CATALOG: [f"There are {len(catalog)} entries; a catalog has at most {SHARED_INSTANCES}."]}
        before: Mapping[str, str] = scope.previous.get(CATALOG, {})
        new = {revision: instance for revision, instance in catalog.items() if before.get(revision) != instance}
        problems = await _entry_problems(scope.connection, scope.organization_id, new)
        messages = [message for found in problems.values() for message in found.values()]
        return {CATALOG: messages[:_SHOWN]}

    async def run(self, command: str, call: ServiceCall) -> Mapping[str, Any]:
        """Read or change the catalog. Raises FieldErrors for what is not there, and Conflict."""
        async with call.transaction() as connection:
            row = await services.lock(connection, service_id=call.service_id)
            if row is None:
                raise Conflict("The service was deleted at the same moment.")
            parameters: dict[str, Any] = msgspec.json.decode(row.parameters)
            catalog: dict[str, str] = parameters.setdefault(CATALOG, {})
            if command == "list":
                return {"instances": catalog}
            revision = call.arguments["revisionId"]
            if command == "remove":
                results: dict[str, Any] = {"removed": catalog.pop(revision, None) is not None}
            else:
                instance = call.arguments["instanceId"]
                await _check_entry(connection, call.organization_id, catalog, revision, instance)
                catalog[revision] = instance
                results = {"revisionId": revision, "instanceId": instance}
            text = msgspec.json.encode(parameters).decode()
            await services.set_parameters(connection, service_id=call.service_id, parameters=text)
            return results


async def _check_entry(
    connection: Connection, organization_id: str, catalog: Mapping[str, str], revision: str, instance: str
) -> None:
    if revision not in catalog and len(catalog) >= SHARED_INSTANCES:
        raise Conflict(f"The catalog has {SHARED_INSTANCES} entries, which is the most; remove some first.")
    problems = await _entry_problems(connection, organization_id, {revision: instance})
    if problems:
        [found] = problems.values()
        raise FieldErrors({argument: [message] for argument, message in found.items()})


async def _entry_problems(
    connection: Connection, organization_id: str, entries: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """Return what is wrong with entries: revision → argument of `add` → sentence."""
    ids = sorted({text for entry in entries.items() for text in entry if is_id(text)})
    if not entries:
        return {}
    known = await services.revisions_and_instances(connection, organization_id=organization_id, ids=ids)
    revisions = {row.id: row.application_id for row in known if row.is_revision}
    instances = {row.id: row.application_id for row in known if not row.is_revision}
    problems: dict[str, dict[str, str]] = {}
    for revision, instance in entries.items():
        if revision not in revisions:
            problem = {"revisionId": f"The organization has no revision {revision[:40]!r}."}
        elif instance not in instances:
            problem = {"instanceId": f"The organization has no instance {instance[:40]!r}."}
        elif revisions[revision] != instances[instance]:
            problem = {"instanceId": f"The instance {instance} is not one of the application of revision {revision}."}
        else:
            continue
        problems[revision] = problem
    return problems
