"""`builtin:cloud_account`: where machines come from, and with whose credentials (manifest-language §8)."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from launchbay.model.types import STRING
from launchbay.service_types.contract import FieldMessages, ParameterScope, Passive, ServiceParameter

_PROVIDER = "configuration.provider"
_IDENTITY = "configuration.identity"
_CREDENTIAL = "configuration.credential"
_ENDPOINT = "configuration.endpoint-url"
_REGIONS = "configuration.legacy-regions"
_SECURITY_GROUP = "configuration.legacy-security-group"
_PROVIDER_NAME = re.compile(r"[a-z0-9]+([._-][a-z0-9]+)*")


class CloudAccount(Passive):
    """The parameters are checked here; the machines' side reads them."""

    id = "builtin:cloud_account"
    name = "Cloud account"
    parameters: Mapping[str, ServiceParameter] = {
        _PROVIDER: ServiceParameter(STRING, "The provider's name, such as aws-ec2 or openstack-nova.", required=True),
        _IDENTITY: ServiceParameter(STRING, "Who signs in there: an access key or a user's name.", required=True),
        _CREDENTIAL: ServiceParameter(STRING, "The secret that belongs to the identity.", required=True, secret=True),
        _ENDPOINT: ServiceParameter(STRING, "The http or https address of the provider's API, where it has several."),
        _REGIONS: ServiceParameter(STRING, "The regions to use, separated by commas; without it, all of them."),
        _SECURITY_GROUP: ServiceParameter(STRING, "The security group of new machines."),
    }

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
