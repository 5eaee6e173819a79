"""`builtin:shared_instances_catalog`: running instances that launches use instead of fresh submodules (language §7)."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec

from launchbay.errors import Conflict, FieldErrors
from launchbay.ids import is_id
from launchbay.limits import SHARED_INSTANCES
from launchbay.model.types import BOOL, OBJECT, STRING, ListType, MapType, PinType, parse_pin_type
from launchbay.service_types.contract import (
    CommandArgument,
    FieldMessages,
    ParameterScope,
    PassiveServiceType,
    ServiceCall,
    ServiceCommand,
    ServiceParameter,
    command_pins,
)
from launchbay.service_types.key_pairs import KEY_COMMANDS, run_key_command
from launchbay.service_types.secrets import SECRET_COMMANDS, run_secret_command
from launchbay.store import services
from launchbay.store.database import Connection

_PROVIDER = "configuration.provider"
_IDENTITY = "configuration.identity"
_CREDENTIAL = "configuration.credential"
_ENDPOINT = "configuration.endpoint-url"
_REGIONS = "configuration.legacy-regions"
_SECURITY_GROUP = "configuration.legacy-security-group"
_REGION_SHAPE = {"region": STRING, "works": BOOL, "problem": STRING}
_PROVIDER_NAME = re.compile(r"[a-z0-9]+([._-][a-z0-9]+)*")


class AccountProbe(Protocol):
    """Signs in to clouds; the machines' side knows how."""

    def regions(self, parameters: Mapping[str, Any]) -> Sequence[str]:
        """Return the regions that an account with these parameters is for."""
        ...

    async def problem(self, organization_id: str, parameters: Mapping[str, Any], region: str) -> str | None:
        """Sign in to a region and return what keeps the account from being used there, None where nothing does."""
        ...


class CloudAccount:
    """The parameters are checked here; the machines' side reads them."""

    id = "builtin:cloud_account"
    name = "Cloud account"
    parameters: Mapping[str, ServiceParameter] = {
        _PROVIDER: ServiceParameter(STRING, "The provider's name, such as aws-ec2 or openstack-nova.", required=True),
        _IDENTITY: ServiceParameter(STRING, "Who signs in there: an access key or a user's name.", required=True),
        _CREDENTIAL: ServiceParameter(STRING, "The secret that belongs to the identity.", required=True, secret=True),
        _ENDPOINT: ServiceParameter(STRING, "The http or https address of the provider's API, where it has several."),
        _REGIONS: ServiceParameter(STRING, "The regions that it is for, separated by commas; without it, any region."),
        _SECURITY_GROUP: ServiceParameter(STRING, "The security group of new machines."),
    }

    commands: Mapping[str, ServiceCommand] = {
        "check": ServiceCommand(
            "cloud-account",
            "Signs in to every region of the account and creates nothing. Reports each region when it is checked.",
            intermediate=_REGION_SHAPE,
            results={"works": BOOL, "regions": ListType(OBJECT)},
            changes=False,
        ),
    }
    interfaces = command_pins(commands)

    def __init__(self, probe: AccountProbe | None = None) -> None:
        self._probe = probe

    async def run(self, command: str, call: ServiceCall) -> Mapping[str, Any]:  # noqa: ARG002 - there is one
        """Look at the account. Raises Conflict where this installation has nothing that could."""
        if self._probe is None:
            raise Conflict("This installation cannot reach clouds, so the account cannot be tried.")
        looks: list[dict[str, Any]] = []
        for region in self._probe.regions(call.parameters):
            problem = await self._probe.problem(call.organization_id, call.parameters, region)
            looks.append({"region": region, "works": problem is None, "problem": problem or ""})
            call.report(looks[-1])
        return {"works": all(look["works"] for look in looks), "regions": looks}

    async def check(self, scope: ParameterScope, parameters: Mapping[str, Any]) -> FieldMessages:  # noqa: ARG002 - contract
        """Check the provider's name and the form of the address. Whether the credentials are right shows in use."""
        problems: dict[str, list[str]] = {}
        if not _PROVIDER_NAME.fullmatch(parameters[_PROVIDER]):
            problems[_PROVIDER] = ["A provider's name has lower-case letters and digits, such as aws-ec2."]
        problems |= {
            name: ["This cannot be empty."] for name in (_IDENTITY, _CREDENTIAL) if not parameters[name].strip()
        }
        if parameters.get(_ENDPOINT) and not _is_address(parameters[_ENDPOINT]):
            problems[_ENDPOINT] = ["This must be an address such as https://cloud.example:5000/v3."]
        return problems


def _is_address(text: str) -> bool:
    if any(character <= " " for character in text):
        return False
    try:
        parts = urlsplit(text)
        port_is_fine = parts.port is None or parts.port > 0  # reading it may raise
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and port_is_fine and parts.username is None


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
    known = await services.list_revisions_and_instances(connection, organization_id=organization_id, ids=ids)
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


# What manifests reach. What changes a vault is for people, through the API: who may launch shall not change keys.
_FOR_MANIFESTS = frozenset({"get-keypair", "get-public-key", "get-secret"})


class SecureStore(PassiveServiceType):
    """The store that every organization has; it takes no parameters. What it keeps is sealed in the database."""

    id = "builtin:cobalt_secure_store"
    name = "Credentials service"
    commands: Mapping[str, ServiceCommand] = {**KEY_COMMANDS, **SECRET_COMMANDS}
    interfaces = command_pins({name: command for name, command in commands.items() if name in _FOR_MANIFESTS})

    async def run(self, command: str, call: ServiceCall) -> Mapping[str, Any]:
        """Carry out one of the commands. Raises FieldErrors and Conflict."""
        return await (run_key_command if command in KEY_COMMANDS else run_secret_command)(command, call)


class WorkflowService(PassiveServiceType):
    """Offers the interface `executor`, which the compiler knows as implicit in `workflow.Instance` and ignores."""

    id = "builtin:workflow_service"
    name = "Workflow service"
    interfaces: Mapping[str, Mapping[str, PinType]] = {
        "executor": {
            "execute-workflow": parse_pin_type("receive-command(object request => object status => object status)"),
            "execute-command": parse_pin_type(
                "send-command(string interface, string command, map<string, object> arguments"
                " => map<string, object> response => map<string, object> response)"
            ),
        }
    }
