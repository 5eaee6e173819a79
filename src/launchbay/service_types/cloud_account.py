"""`builtin:cloud_account`: where machines come from, and with whose credentials (manifest-language §8)."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit

from launchbay.errors import Conflict
from launchbay.model.types import BOOL, OBJECT, STRING, ListType
from launchbay.service_types.contract import (
    FieldMessages,
    ParameterScope,
    ServiceCall,
    ServiceCommand,
    ServiceParameter,
    command_pins,
)

_PROVIDER = "configuration.provider"
_IDENTITY = "configuration.identity"
_CREDENTIAL = "configuration.credential"
_ENDPOINT = "configuration.endpoint-url"
_REGIONS = "configuration.legacy-regions"
_SECURITY_GROUP = "configuration.legacy-security-group"
_REGION_LOOK = {"region": STRING, "works": BOOL, "problem": STRING}
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
            intermediate=_REGION_LOOK,
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
