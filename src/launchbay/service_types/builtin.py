"""The built-in service types: cloud account, shared instances, credentials service, workflow service (language §7)."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec

from launchbay.egress import aws
from launchbay.errors import Conflict, EgressFailed, FieldErrors
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
    lock_service,
)
from launchbay.service_types.key_pairs import KEY_COMMANDS, KEY_WORK
from launchbay.service_types.secrets import SECRET_COMMANDS, SECRET_WORK
from launchbay.store import services
from launchbay.store.database import Connection

_PROVIDER = "configuration.provider"
_IDENTITY = "configuration.identity"
_CREDENTIAL = "configuration.credential"
_ENDPOINT = "configuration.endpoint-url"
_ROLE = "configuration.role"
_AUDIENCE = "configuration.audience"
_STS = "configuration.sts-endpoint-url"
_REGIONS = "configuration.legacy-regions"
_SECURITY_GROUP = "configuration.legacy-security-group"
_REGION_SHAPE = {"region": STRING, "works": BOOL, "problem": STRING}
_PROVIDER_NAME = re.compile(r"[a-z0-9]+([._-][a-z0-9]+)*")


class AccountProbe(Protocol):
    """Signs in to clouds; the package `machines` implements it."""

    def regions(self, parameters: Mapping[str, Any]) -> Sequence[str]:
        """Return the regions of an account with these parameters."""

    async def problem(self, organization_id: str, parameters: Mapping[str, Any], region: str) -> str | None:
        """Sign in to a region and return the error, or None if it works."""


class CloudAccount:
    """Credentials of a cloud, for the machine provider `cloud`."""

    id = "builtin:cloud_account"
    name = "Cloud account"
    parameters: Mapping[str, ServiceParameter] = {
        _PROVIDER: ServiceParameter(STRING, "The provider's name, such as aws-ec2 or openstack-nova.", required=True),
        _IDENTITY: ServiceParameter(STRING, "The access key or user name.", required=True, unless=_ROLE),
        _CREDENTIAL: ServiceParameter(STRING, "The secret of the identity.", required=True, secret=True, unless=_ROLE),
        _ROLE: ServiceParameter(STRING, "The ARN of the role that a job takes with its identity, instead of both."),
        _AUDIENCE: ServiceParameter(
            STRING, f"The audience for the role, one of the environment's. Default: {aws.AUDIENCE}."
        ),
        _STS: ServiceParameter(
            STRING, "The URL of STS for the role. Default: that of AWS in the region.", takes_tokens=True
        ),
        _ENDPOINT: ServiceParameter(STRING, "The URL of the provider's API, if it has several."),
        _REGIONS: ServiceParameter(STRING, "The allowed regions, comma-separated. Default: any region."),
        _SECURITY_GROUP: ServiceParameter(STRING, "The security group of new machines."),
    }

    commands: Mapping[str, ServiceCommand] = {
        "check": ServiceCommand(
            "cloud-account",
            "Signs in to every region of the account, and reports each one. Creates nothing.",
            intermediate=_REGION_SHAPE,
            results={"works": BOOL, "regions": ListType(OBJECT)},
            changes=False,
        )
    }
    interfaces = command_pins(commands)

    def __init__(self, probe: AccountProbe | None = None) -> None:
        self._probe = probe

    async def run(self, command: str, call: ServiceCall) -> Mapping[str, Any]:  # noqa: ARG002 - there is one
        """Check the account. Raises Conflict if this installation has no library for clouds."""
        if self._probe is None:
            raise Conflict("Can't check the account, because this installation has no library for clouds.")
        checks: list[dict[str, Any]] = []
        for region in self._probe.regions(call.parameters):
            problem = await self._probe.problem(call.organization_id, call.parameters, region)
            checks.append({"region": region, "works": problem is None, "problem": problem or ""})
            call.report(checks[-1])
        return {"works": all(each["works"] for each in checks), "regions": checks}

    async def check(self, scope: ParameterScope, parameters: Mapping[str, Any]) -> FieldMessages:  # noqa: ARG002 - contract
        """Check the provider's name and the URL, without signing in."""
        problems: dict[str, list[str]] = {}
        if not _PROVIDER_NAME.fullmatch(parameters[_PROVIDER]):
            problems[_PROVIDER] = ["A provider's name must have lower-case letters and digits, such as aws-ec2."]
        problems |= _sign_in_problems(parameters)
        for name in (_ENDPOINT, _STS):
            if parameters.get(name) and not is_url(parameters[name]):
                problems[name] = ["This must be a URL such as https://cloud.example:5000/v3."]
        return problems


def _sign_in_problems(parameters: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return what is wrong with the role, or with identity and credential."""
    role, both = parameters.get(_ROLE), (_IDENTITY, _CREDENTIAL)
    if not role:
        return {name: ["This must not be empty."] for name in both if not parameters[name].strip()}
    if any(parameters.get(name) for name in both):
        return {_ROLE: ["Use either a role, or an identity and a credential."]}
    if not aws.ROLE.fullmatch(role):
        return {_ROLE: ["This must be the ARN of a role, such as arn:aws:iam::123456789012:role/launchbay."]}
    return {}


def is_url(text: str) -> bool:
    """Tell whether it is an address of HTTP without credentials."""
    if any(character <= " " for character in text):
        return False
    try:
        parts = urlsplit(text)
        port_is_fine = parts.port is None or parts.port > 0  # reading it may raise
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and port_is_fine and parts.username is None


def address_problems(scope: ParameterScope, name: str, value: str, example: str) -> list[str]:
    """Return what is wrong with an address to which secrets go.

    Nothing is if the parameter stays as it was.
    """
    if not is_url(value):
        return [f"This must be a URL such as {example}."]
    if scope.previous.get(name) == value:
        return []
    try:
        scope.egress.require_private(value, "What is secret")
    except EgressFailed as error:
        return list(error.messages)
    return []


SHARED_INSTANCES_CATALOG = "builtin:shared_instances_catalog"
CATALOG = "configuration.shared-instances"
_INTERFACE = "shared-instances"
_SHOWN = 20


class SharedInstances:
    """Running instances that launches use instead of new submodules, by revision."""

    id = SHARED_INSTANCES_CATALOG
    name = "Shared instances catalog"
    parameters: Mapping[str, ServiceParameter] = {
        CATALOG: ServiceParameter(MapType(STRING, STRING), "A map from revision IDs to IDs of shared instances.")
    }
    commands: Mapping[str, ServiceCommand] = {
        "add": ServiceCommand(
            _INTERFACE,
            "Shares an instance under a revision, or replaces the shared one.",
            arguments={
                "revisionId": CommandArgument(STRING, "A revision of the instance's application.", required=True),
                "instanceId": CommandArgument(STRING, "The instance to share.", required=True),
            },
            results={"revisionId": STRING, "instanceId": STRING},
        ),
        "remove": ServiceCommand(
            _INTERFACE,
            "Stops sharing an instance.",
            arguments={"revisionId": CommandArgument(STRING, "The revision of the shared instance.", required=True)},
            results={"removed": BOOL},
        ),
        "list": ServiceCommand(
            _INTERFACE, "Lists the shared instances.", results={"instances": MapType(STRING, STRING)}, changes=False
        ),
        "get-shared-instance": ServiceCommand(
            "strategy",
            "Returns the instance that is shared under a revision.",
            arguments={"revision": CommandArgument(STRING, "The revision of the shared instance.", required=True)},
            results={"instance": STRING},
            changes=False,
        ),
    }
    interfaces = command_pins(commands)

    async def check(self, scope: ParameterScope, parameters: Mapping[str, Any]) -> FieldMessages:
        """Check the new entries: a revision and an instance of the same application, in the organization.

        The revisions and instances of older entries may have been deleted since.
        """
        catalog: Mapping[str, str] = parameters.get(CATALOG, {})
        if len(catalog) > SHARED_INSTANCES:
            return {CATALOG: [f"The catalog has {len(catalog)} entries. Limit: {SHARED_INSTANCES}."]}
        before: Mapping[str, str] = scope.previous.get(CATALOG, {})
        new = {revision: instance for revision, instance in catalog.items() if before.get(revision) != instance}
        problems = await _entry_problems(scope.connection, scope.organization_id, new)
        messages = [message for found in problems.values() for message in found.values()]
        return {CATALOG: messages[:_SHOWN]}

    async def run(self, command: str, call: ServiceCall) -> Mapping[str, Any]:
        async with call.transaction() as connection:
            row = await lock_service(connection, call.service_id)
            parameters: dict[str, Any] = msgspec.json.decode(row.parameters)
            catalog: dict[str, str] = parameters.setdefault(CATALOG, {})
            if command == "list":
                return {"instances": catalog}
            if command == "get-shared-instance":
                return {
                    "instance": await _shared(connection, call.organization_id, catalog, call.arguments["revision"])
                }
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


async def _shared(connection: Connection, organization_id: str, catalog: Mapping[str, str], revision: str) -> str:
    if revision not in catalog:
        raise FieldErrors({"revision": [f"The catalog has no instance for the revision {revision[:40]!r}."]})
    instance = catalog[revision]
    if not await services.list_revisions_and_instances(connection, organization_id=organization_id, ids=[instance]):
        raise FieldErrors({"revision": [f"The shared instance {instance} of the revision is destroyed. Add another."]})
    return instance


async def _check_entry(
    connection: Connection, organization_id: str, catalog: Mapping[str, str], revision: str, instance: str
) -> None:
    if revision not in catalog and len(catalog) >= SHARED_INSTANCES:
        raise Conflict(f"The catalog is full ({SHARED_INSTANCES} entries). Remove some first.")
    problems = await _entry_problems(connection, organization_id, {revision: instance})
    if problems:
        [found] = problems.values()
        raise FieldErrors({argument: [message] for argument, message in found.items()})


async def _entry_problems(
    connection: Connection, organization_id: str, entries: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """Return the errors of entries: revision → argument of `add` → message."""
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
            problem = {"instanceId": f"The instance {instance} isn't of the same application as revision {revision}."}
        else:
            continue
        problems[revision] = problem
    return problems


# Commands that change a vault are available only in the API, so that users who can launch can't change keys.
_FOR_MANIFESTS = frozenset({"get-keypair", "get-public-key", "get-secret"})


class SecureStore(PassiveServiceType):
    """The vault that every organization has, without parameters. Its entries are stored encrypted."""

    id = "builtin:cobalt_secure_store"
    name = "Credentials service"
    commands: Mapping[str, ServiceCommand] = {**KEY_COMMANDS, **SECRET_COMMANDS}
    interfaces = command_pins({name: command for name, command in commands.items() if name in _FOR_MANIFESTS})

    async def run(self, command: str, call: ServiceCall) -> Mapping[str, Any]:
        return await {**KEY_WORK, **SECRET_WORK}[command](call)


class WorkflowService(PassiveServiceType):
    """Offers the interface `executor`, which is implicit in `workflow.Instance`, so the compiler ignores it."""

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
