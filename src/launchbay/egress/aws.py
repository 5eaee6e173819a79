"""Requests to AWS for secrets and clouds: roles by web identity, signatures.

The signature is that of apache-libcloud, with which machines of clouds are made. It is optional, and loaded late.
"""

import asyncio
import importlib
import re
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit
from xml.etree import ElementTree as ET

import msgspec

from launchbay import limits
from launchbay.egress.http import EgressClient, EgressResponse
from launchbay.errors import EgressFailed

REGION = re.compile(r"[a-z]{2,4}(-[a-z]+)+-[0-9]+")
ROLE = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:role/[\w+=,.@/-]{1,576}", re.ASCII)
AUDIENCE = "sts.amazonaws.com"
SHORTEST_SESSION_S = 900  # STS gives no shorter one
_CLOCK = re.compile("Expired|RequestTimeTooSkewed|RequestInTheFuture|SignatureDoesNotMatch|InvalidSignature")
_THROTTLED = re.compile("Throttl|TooManyRequests|RequestLimitExceeded|SlowDown|LimitExceeded")
_TOKEN_EXPIRED = re.compile("Expired")
_SESSION_NAME = re.compile(r"[^\w+=,.@-]", re.ASCII)
_SESSION_NAME_CHARS = 64


class AwsKeys(NamedTuple):
    """Credentials of an account; with a token, those of a session."""

    access_key_id: str
    secret_access_key: str
    token: str = ""

    def __repr__(self) -> str:
        return f"AwsKeys({self.access_key_id!r})"


class AwsRefused(EgressFailed):
    """AWS refused a request; `reason` is its code, such as AccessDeniedException."""

    def __init__(self, reason: str, said: str, *, status: int) -> None:
        self.reason = reason
        self.throttles = bool(_THROTTLED.match(reason)) or status == 429
        self.fails = status >= 500 or reason == "IDPCommunicationError"  # it can't ask the issuer of a token
        self.has_expired = bool(_TOKEN_EXPIRED.match(reason))
        super().__init__(
            f"{reason}: {said}" if said else reason,
            *(["Compare the clock of this server."] if _CLOCK.match(reason) else ()),
            retryable=self.throttles or self.fails or self.has_expired,
        )


def endpoint(service: str, region: str) -> str:
    """Return the URL of a service in a region of AWS."""
    return f"https://{service}.{region}.amazonaws.com" + (".cn" if region.startswith("cn-") else "")


async def by_web_identity(
    egress: EgressClient, url: str, role: str, token: str, session_name: str, *, duration_s: int = SHORTEST_SESSION_S
) -> AwsKeys:
    """Take a role with a token of a job. `url` is STS.

    Raises EgressFailed, and AwsRefused.
    """
    egress.require_private(url, "The token of the job")
    form = {
        "Action": "AssumeRoleWithWebIdentity",
        "Version": "2011-06-15",
        "RoleArn": role,
        "RoleSessionName": _SESSION_NAME.sub("-", session_name)[:_SESSION_NAME_CHARS],
        "DurationSeconds": duration_s,
        "WebIdentityToken": token,
    }
    headers = {"content-type": "application/x-www-form-urlencoded"}
    response = await _post(egress, url, headers, urlencode(form).encode())
    found = _texts(response.body)
    if response.status != 200:
        raise AwsRefused(found.get("Code", str(response.status)), found.get("Message", ""), status=response.status)
    try:
        return AwsKeys(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"])
    except KeyError:
        raise EgressFailed(f"{url} gave no credentials. Is it an endpoint of STS?", retryable=False) from None


async def call(
    egress: EgressClient, url: str, operation: str, region: str, keys: AwsKeys, question: Mapping[str, Any]
) -> dict[str, Any]:
    """Call an operation such as `secretsmanager.GetSecretValue` with JSON.

    The word before the dot is the service that signatures name. Raises EgressFailed, and AwsRefused.
    """
    egress.require_private(url, "A secret")
    service = operation.partition(".")[0]
    body = msgspec.json.encode(question)
    target = urlsplit(url)
    headers = {
        "host": target.netloc,
        "content-type": "application/x-amz-json-1.1",
        "x-amz-target": _TARGETS.get(service, service) + operation[len(service) :],
    }
    if keys.token:
        headers["x-amz-security-token"] = keys.token
    signer = await asyncio.to_thread(_signer, keys, SimpleNamespace(region_name=region), service)
    _, signed = signer.get_request_headers({}, headers, "POST", target.path or "/", body)
    del signed["host"]  # the client writes it
    response = await _post(egress, url, signed, body)
    answer = _map(response.body)
    if response.status == 200:
        return answer
    answer = answer or _texts(response.body)  # as gateways write it
    reason = str(
        answer.get("__type") or answer.get("Code") or response.headers.get("x-amzn-errortype") or response.status
    )
    said = answer.get("message") or answer.get("Message") or ""
    raise AwsRefused(reason.rpartition("#")[2].partition(":")[0], str(said)[:500], status=response.status)


_TARGETS = {"ssm": "AmazonSSM"}


async def _post(egress: EgressClient, url: str, headers: Mapping[str, str], body: bytes) -> EgressResponse:
    return await egress.request(
        "POST",
        url,
        headers=headers,
        body=body,
        timeout_s=limits.SECRET_TIMEOUT_S,
        max_bytes=limits.SECRET_RESPONSE_BYTES,
    )


def _signer(keys: AwsKeys, driver: SimpleNamespace, service: str) -> Any:
    """Return a signer for a service in the driver's region.

    Raises EgressFailed without the library.
    """
    try:
        library = importlib.import_module("libcloud.common.aws")
    except ModuleNotFoundError as error:
        raise EgressFailed(
            f"The library for clouds is not installed on this server: {error.name} is missing.",
            "An administrator can install it with: pip install 'launchbay[clouds]'.",
            retryable=False,
        ) from None
    connection = SimpleNamespace(driver=driver, service_name=service)
    return library.AWSRequestSignerAlgorithmV4(keys.access_key_id, keys.secret_access_key, None, connection)


def _texts(body: bytes) -> dict[str, str]:
    """Return the texts of XML by element, without namespaces."""
    try:
        tree = ET.fromstring(body)  # noqa: S314 - of bounded size, and expat bounds what entities become
    except ET.ParseError:
        return {}
    return {each.tag.rpartition("}")[2]: each.text.strip() for each in tree.iter() if each.text}


def _map(body: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
