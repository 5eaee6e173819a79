"""AWS Secrets Manager and Systems Manager Parameter Store as providers of secrets.

A step takes a role with the identity of its job, or uses keys that are stored with the service. A session is in memory
only: nothing can revoke it, and it ends by itself after 15 minutes.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from launchbay.egress import aws
from launchbay.egress.aws import AwsKeys, AwsRefused
from launchbay.egress.http import EgressClient
from launchbay.errors import EgressFailed
from launchbay.model.types import STRING
from launchbay.service_types.builtin import address_problems
from launchbay.service_types.contract import (
    FieldMessages,
    ParameterScope,
    PassiveServiceType,
    ProvidedSecret,
    SecretCall,
    SecretFailed,
    SecretProblem,
    ServiceParameter,
    SignedIn,
    provided_text,
)

_REGION = "configuration.region"
_ROLE = "configuration.role"
_AUDIENCE = "configuration.audience"
_ACCESS_KEY = "configuration.access-key-id"
_SECRET_KEY = "configuration.secret-access-key"  # noqa: S105 - the name of a parameter
_ENDPOINT = "configuration.endpoint-url"
_STS = "configuration.sts-endpoint-url"
_MISSING = re.compile("ResourceNotFoundException|ParameterNotFound|ParameterVersionNotFound")
_UNREADABLE = re.compile("DecryptionFailure|InvalidKeyId|KMS(InvalidState|Disabled|NotFound)Exception")
_FORBIDDEN = re.compile(
    "(KMS)?AccessDenied(Exception)?|UnauthorizedOperation|InvalidClientTokenId|InvalidSignatureException"
    "|SignatureDoesNotMatch|UnrecognizedClientException|IncompleteSignature|MissingAuthenticationToken|401|403"
)
_ARN_PARTS = 7
_STRING = "SecretString"
_VERSION = "VersionId"
_VPC_ENDPOINT = "https://vpce-1.secretsmanager.eu-central-1.vpce.amazonaws.com"


class _Session(msgspec.Struct, frozen=True):
    """What reaches the service of AWS after the sign-in."""

    name: str
    url: str
    region: str
    keys: AwsKeys
    by_role: bool


class _AwsProvider(PassiveServiceType):
    """What both have in common: region, sign-in and errors."""

    product: str  # the name of AWS
    operation: str
    permission: str

    parameters: Mapping[str, ServiceParameter] = {
        _REGION: ServiceParameter(STRING, "The region, such as eu-central-1.", required=True),
        _ROLE: ServiceParameter(STRING, "The ARN of the role that a job takes with its identity."),
        _AUDIENCE: ServiceParameter(
            STRING, f"The audience for the role, one of the environment's. Default: {aws.AUDIENCE}."
        ),
        _ACCESS_KEY: ServiceParameter(STRING, "The ID of an access key, instead of a role."),
        _SECRET_KEY: ServiceParameter(STRING, "The secret of the access key.", secret=True),
        _ENDPOINT: ServiceParameter(STRING, "The URL of the service, such as a VPC endpoint. Default: that of AWS."),
        _STS: ServiceParameter(STRING, "The URL of STS. Default: that of AWS in the region.", takes_tokens=True),
    }

    async def check(self, scope: ParameterScope, parameters: Mapping[str, Any]) -> FieldMessages:
        """Check the region, the URLs and the sign-in."""
        problems: dict[str, list[str]] = {}
        if not aws.REGION.fullmatch(parameters[_REGION]):
            problems[_REGION] = ["This must be the name of a region, such as eu-central-1."]
        for name in (_ENDPOINT, _STS):
            value = parameters.get(name)
            if value and (wrong := address_problems(scope, name, value, _VPC_ENDPOINT)):
                problems[name] = wrong
        role, keys = parameters.get(_ROLE), [name for name in (_ACCESS_KEY, _SECRET_KEY) if parameters.get(name)]
        if role and keys:
            problems[_ROLE] = ["Use either a role or an access key."]
        elif role and not aws.ROLE.fullmatch(role):
            problems[_ROLE] = ["This must be the ARN of a role, such as arn:aws:iam::123456789012:role/shop."]
        elif not role and len(keys) < 2:
            # What an import leaves to be filled in is missed where it goes.
            problems[_SECRET_KEY if parameters.get(_ACCESS_KEY) else _ROLE] = [
                f"Sign-in needs a role, or {_ACCESS_KEY} with {_SECRET_KEY}."
            ]
        return problems

    async def sign_in(self, call: SecretCall) -> SignedIn:
        """Take the role with the job's identity, or use stored keys. Raises SecretFailed."""
        given = call.parameters
        region, role = given[_REGION], given.get(_ROLE) or ""
        url = given.get(_ENDPOINT) or aws.endpoint(self.operation.partition(".")[0], region)
        keys = AwsKeys(given.get(_ACCESS_KEY) or "", given.get(_SECRET_KEY) or "")
        if role:
            token = await call.token(given.get(_AUDIENCE) or aws.AUDIENCE)
            try:
                keys = await aws.by_web_identity(
                    call.egress,
                    given.get(_STS) or aws.endpoint("sts", region),
                    role,
                    token,
                    f"launchbay-{call.job_id or call.name}",
                )
            except EgressFailed as error:
                raise self._failed(call.name, f"the role {role}", error, signs_in=True) from error
        session = _Session(call.name, url, region, keys, bool(role))
        return SignedIn(msgspec.json.encode(session).decode(), [each for each in keys[1:] if each])

    async def _asked(self, egress: EgressClient, session: _Session, path: str, question: Mapping[str, Any]) -> Any:
        try:
            return await aws.call(egress, session.url, self.operation, session.region, session.keys, question)
        except EgressFailed as error:
            raise self._failed(session.name, repr(path), error, by_role=session.by_role) from error

    def _failed(
        self, name: str, place: str, error: EgressFailed, *, signs_in: bool = False, by_role: bool = True
    ) -> SecretFailed:
        """Return the error with provider and path, and what to do."""
        who = f"The secret provider {name!r} ({self.product})"
        if not isinstance(error, AwsRefused):
            problem = SecretProblem.UNREACHABLE if error.retryable else SecretProblem.INVALID
            return SecretFailed(problem, f"{who} can't be reached:", *error.messages)
        said, fix = " ".join(error.messages), ""
        if error.throttles:
            problem, what = SecretProblem.THROTTLED, "got too many requests"
        elif error.fails:
            problem, what = SecretProblem.UNREACHABLE, "can't answer now"
        elif error.has_expired:
            problem, what = SecretProblem.EXPIRED, "says that the session has ended"
        elif _MISSING.fullmatch(error.reason):
            problem, what, fix = SecretProblem.MISSING, "has no secret", "Write it there, or correct the reference."
        elif _UNREADABLE.fullmatch(error.reason):
            problem, what, fix = SecretProblem.UNREADABLE, "can't decrypt", "Its KMS key must exist and be enabled."
        elif signs_in:
            problem, what = SecretProblem.FORBIDDEN, "refused the sign-in of the job"
            fix = "Compare the trust policy of the role with the claims of the job."
        elif _FORBIDDEN.fullmatch(error.reason):
            fix = f"The policies of its {'role' if by_role else 'user'} must allow {self.permission}, and kms:Decrypt."
            problem, what = SecretProblem.FORBIDDEN, "refuses"
        else:
            problem, what, fix = SecretProblem.INVALID, "refused", "Correct the reference."
        return SecretFailed(problem, f"{who}: {what}, {place} ({said}).", *filter(None, [fix]))


class AwsSecrets(_AwsProvider):
    """Reads secrets; implements `SecretProvider`."""

    id = "builtin:aws_secrets_manager"
    name = "AWS Secrets Manager"
    product = "AWS Secrets Manager"
    operation = "secretsmanager.GetSecretValue"
    permission = "secretsmanager:GetSecretValue"

    async def read(self, egress: EgressClient, session: str, path: str) -> ProvidedSecret:
        """Read `NAME:STAGE:VERSION`, a name or ARN. Raises SecretFailed."""
        opened = _decode(session)
        answer = await self._asked(egress, opened, path, _secret_question(path))
        text = answer.get(_STRING)
        if isinstance(text, str):
            return provided_text(text, str(answer.get(_VERSION) or ""))
        kind = "is binary" if "SecretBinary" in answer else "has no text"
        raise SecretFailed(
            SecretProblem.UNREADABLE,
            f"The secret provider {opened.name!r} ({self.product}) gave {path!r}, which {kind}.",
            "Store it as text, for example in Base64.",
        )


class AwsParameters(_AwsProvider):
    """Reads parameters, decrypted; implements `SecretProvider`."""

    id = "builtin:aws_parameter_store"
    name = "AWS Systems Manager Parameter Store"
    product = "AWS Parameter Store"
    operation = "ssm.GetParameter"
    permission = "ssm:GetParameter"

    async def read(self, egress: EgressClient, session: str, path: str) -> ProvidedSecret:
        """Read `NAME`, `NAME:VERSION` or `NAME:LABEL`, a name or ARN. Raises SecretFailed."""
        opened = _decode(session)
        # References have no slash at the beginning, and names in a hierarchy have one.
        name = f"/{path}" if "/" in path and not path.startswith("arn:") else path
        answer = await self._asked(egress, opened, path, {"Name": name, "WithDecryption": True})
        found = answer.get("Parameter")
        text = found.get("Value") if isinstance(found, dict) else None
        if not isinstance(text, str):
            raise SecretFailed(
                SecretProblem.UNREADABLE,
                f"The secret provider {opened.name!r} ({self.product}) gave no text for {path!r}.",
                "Compare its endpoint-url.",
            )
        return provided_text(text, str(found.get("Version") or ""))


_decode = msgspec.json.Decoder(_Session).decode


def _secret_question(path: str) -> dict[str, str]:
    """Return what to ask for. An ARN has colons of its own."""
    parts = path.split(":")
    own = _ARN_PARTS if path.startswith("arn:") else 1
    question = {"SecretId": ":".join(parts[:own])}
    stage, version, *more = [*parts[own:], "", ""]
    if any(more):
        raise SecretFailed(
            SecretProblem.INVALID,
            f"{path[:80]!r} has too many colons.",
            "A reference is NAME, NAME:STAGE or NAME::VERSION.",
        )
    versions = {"VersionStage": stage, _VERSION: version}
    return question | {name: value for name, value in versions.items() if value}
