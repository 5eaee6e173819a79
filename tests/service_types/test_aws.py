"""Secrets of AWS: a real moto, which compares signatures where a test says so, and a scripted server for errors."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from launchbay.egress.addresses import Allowlist
from launchbay.egress.http import EgressClient
from launchbay.service_types.aws import AwsParameters, AwsSecrets
from launchbay.service_types.contract import SecretCall, SecretFailed, SecretProblem
from tests.support import aws as aws_server
from tests.support.aws import REGION, ROLE, Aws
from tests.support.clouds import MISSING, PROGRAM
from tests.support.network import LoopbackServer, answer, loopback_server

ALLOWED = EgressClient(Allowlist.parse("127.0.0.1"))
MANAGER = AwsSecrets()
STORE = AwsParameters()
TOKEN = "token-of-the-job"
CANARY = "canary-2204-of-aws"

real = pytest.mark.skipif(not PROGRAM.exists(), reason=MISSING)


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aws]:
    with aws_server.started(tmp_path_factory.mktemp("aws")) as started:
        started.ask("secretsmanager.CreateSecret", {"Name": "shop/db", "SecretString": json.dumps({"password": "old"})})
        changed = {"SecretId": "shop/db", "SecretString": json.dumps({"password": CANARY, "port": 5432})}
        started.ask("secretsmanager.PutSecretValue", changed)
        started.ask("secretsmanager.CreateSecret", {"Name": "shop/text", "SecretString": "a text"})
        data = base64.b64encode(b"\x00\xff").decode()
        started.ask("secretsmanager.CreateSecret", {"Name": "shop/binary", "SecretBinary": data})
        started.ask("secretsmanager.CreateSecret", {"Name": "shop/deleted", "SecretString": "gone"})
        started.ask("secretsmanager.DeleteSecret", {"SecretId": "shop/deleted"})
        for value in ("first", "second"):
            parameter = {"Name": "/shop/key", "Type": "SecureString", "Value": value, "Overwrite": True}
            started.ask("AmazonSSM.PutParameter", parameter)
        label = {"Name": "/shop/key", "ParameterVersion": 1, "Labels": ["before"]}
        started.ask("AmazonSSM.LabelParameterVersion", label)
        started.ask("AmazonSSM.PutParameter", {"Name": "alone", "Type": "String", "Value": "on its own"})
        yield started


async def token(audience: str) -> str:
    assert audience == "sts.amazonaws.com"
    return TOKEN


def call(url: str, *, egress: EgressClient = ALLOWED, **parameters: str) -> SecretCall:
    given = {"configuration.region": REGION, "configuration.endpoint-url": url, "configuration.sts-endpoint-url": url}
    given |= {f"configuration.{name.replace('_', '-')}": value for name, value in parameters.items()}
    return SecretCall(name="aws", parameters=given, egress=egress, token=token, job_id="5f" * 12)


def with_role(url: str) -> SecretCall:
    return call(url, role=ROLE)


async def read(kind: AwsSecrets | AwsParameters, signs_in: SecretCall, path: str) -> Any:
    signed_in = await kind.sign_in(signs_in)
    return await kind.read(ALLOWED, signed_in.session, path)


@real
@pytest.mark.slow  # a server of AWS
async def test_a_job_takes_a_role_with_its_identity_and_reads(aws: Aws) -> None:
    found = await read(MANAGER, with_role(aws.url), "shop/db")
    assert found.values == {"password": CANARY, "port": 5432}
    assert json.loads(found.whole) == found.values
    assert (await read(STORE, with_role(aws.url), "shop/key")).whole == "second"


@real
@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "whole"),
    [
        ("shop/db:AWSPREVIOUS", '{"password": "old"}'),
        ("arn:aws:secretsmanager:eu-central-1:123456789012:secret:shop/text", "a text"),
        ("arn:aws:secretsmanager:eu-central-1:123456789012:secret:shop/db:AWSPREVIOUS", '{"password": "old"}'),
    ],
)
async def test_a_secret_has_stages_and_an_arn(aws: Aws, path: str, whole: str) -> None:
    if path.startswith("arn:"):
        name = path.split(":")[6]
        arn = (await asyncio.to_thread(aws.ask, "secretsmanager.DescribeSecret", {"SecretId": name}))["ARN"]
        path = path.replace(f"arn:aws:secretsmanager:eu-central-1:123456789012:secret:{name}", arn)
    assert (await read(MANAGER, with_role(aws.url), path)).whole == whole


@real
@pytest.mark.slow
async def test_a_secret_has_versions(aws: Aws) -> None:
    listed = await asyncio.to_thread(aws.ask, "secretsmanager.ListSecretVersionIds", {"SecretId": "shop/db"})
    [version] = [each["VersionId"] for each in listed["Versions"] if "AWSPREVIOUS" in each["VersionStages"]]
    assert (await read(MANAGER, with_role(aws.url), f"shop/db::{version}")).values == {"password": "old"}


@real
@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "whole"), [("shop/key:1", "first"), ("shop/key:before", "first"), ("alone", "on its own")]
)
async def test_a_parameter_has_versions_and_labels(aws: Aws, path: str, whole: str) -> None:
    assert (await read(STORE, with_role(aws.url), path)).whole == whole


@real
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "path", "problem", "said"),
    [
        (MANAGER, "shop/none", SecretProblem.MISSING, "has no secret, 'shop/none' (ResourceNotFoundException"),
        (MANAGER, "shop/db:NEVER", SecretProblem.MISSING, "has no secret, 'shop/db:NEVER'"),
        (MANAGER, "shop/deleted", SecretProblem.INVALID, "marked deleted"),
        (MANAGER, "shop/binary", SecretProblem.UNREADABLE, "which is binary. Store it as text"),
        (MANAGER, "a:b:c:d", SecretProblem.INVALID, "too many colons"),
        (STORE, "shop/none", SecretProblem.MISSING, "has no secret, 'shop/none' (ParameterNotFound"),
        (STORE, "shop/key:99", SecretProblem.MISSING, "(ParameterVersionNotFound"),
    ],
)
async def test_what_cannot_be_read_is_named(
    aws: Aws, kind: AwsSecrets | AwsParameters, path: str, problem: SecretProblem, said: str
) -> None:
    with pytest.raises(SecretFailed) as failed:
        await read(kind, with_role(aws.url), path)
    assert said in str(failed.value)
    assert failed.value.problem is problem


@real
@pytest.mark.slow
async def test_signatures_and_policies_are_those_of_aws(aws: Aws) -> None:
    key, secret = await asyncio.to_thread(aws.user, "reader", "secretsmanager:GetSecretValue", "ssm:GetParameter")
    other, wrong = await asyncio.to_thread(aws.user, "nobody")
    with aws.strict():
        signs_in = call(aws.url, access_key_id=key, secret_access_key=secret)
        assert (await read(MANAGER, signs_in, "shop/db")).values["password"] == CANARY
        assert (await read(STORE, signs_in, "shop/key")).whole == "second"
        for given, said in (
            (call(aws.url, access_key_id=other, secret_access_key=wrong), "not authorized to perform"),
            (call(aws.url, access_key_id=key, secret_access_key=wrong), "signature"),
        ):
            with pytest.raises(SecretFailed, match=said) as failed:
                await read(MANAGER, given, "shop/db")
            assert failed.value.problem is SecretProblem.FORBIDDEN
            assert "must allow secretsmanager:GetSecretValue, and kms:Decrypt" in str(failed.value)
            assert wrong not in str(failed.value)


@pytest.fixture
async def server() -> AsyncIterator[LoopbackServer]:
    async with loopback_server() as server:
        yield server


@pytest.mark.parametrize(
    ("status", "reason", "problem"),
    [
        (400, "ThrottlingException", SecretProblem.THROTTLED),
        (429, "", SecretProblem.THROTTLED),
        (400, "AccessDeniedException", SecretProblem.FORBIDDEN),
        (400, "com.amazonaws.secretsmanager#ResourceNotFoundException", SecretProblem.MISSING),
        (400, "DecryptionFailure", SecretProblem.UNREADABLE),
        (400, "ExpiredTokenException", SecretProblem.EXPIRED),
        (500, "InternalServiceError", SecretProblem.UNREACHABLE),
        (503, "", SecretProblem.UNREACHABLE),
        (400, "ValidationException", SecretProblem.INVALID),
    ],
)
async def test_each_answer_of_aws_has_its_problem(
    server: LoopbackServer, status: int, reason: str, problem: SecretProblem
) -> None:
    body = json.dumps({"__type": reason, "message": "because"}).encode() if reason else b"<html>"
    server.routes["/"] = answer(status, body)
    url = server.url().rstrip("/")
    with pytest.raises(SecretFailed) as failed:
        await read(MANAGER, call(url, access_key_id="AKIA", secret_access_key="of-the-account"), "shop/db")
    assert failed.value.problem is problem
    assert "'shop/db'" in str(failed.value)
    assert "of-the-account" not in str(failed.value)


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("AccessDenied", "Compare the trust policy of the role with the claims of the job."),
        ("InvalidIdentityToken", "Compare the trust policy of the role"),
        ("IDPCommunicationError", "can't answer now"),
        ("ExpiredTokenException", "Compare the clock of this server."),
    ],
)
async def test_a_refused_role_says_what_to_compare(server: LoopbackServer, reason: str, said: str) -> None:
    error = f'<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Code>{reason}</Code>'
    server.routes["/"] = answer(403, f"{error}<Message>no</Message></Error></ErrorResponse>".encode())
    with pytest.raises(SecretFailed) as failed:
        await MANAGER.sign_in(with_role(server.url().rstrip("/")))
    assert said in str(failed.value)
    assert TOKEN in server.received[0].body.decode()
    assert TOKEN not in str(failed.value)


async def test_the_role_session_names_the_job_and_ends_as_soon_as_it_can(server: LoopbackServer) -> None:
    server.routes["/"] = answer(200, b"<a/>")
    with pytest.raises(SecretFailed, match="gave no credentials"):
        await MANAGER.sign_in(with_role(server.url().rstrip("/")))
    sent = server.received[0].body.decode()
    assert f"RoleSessionName=launchbay-{'5f' * 12}&DurationSeconds=900&" in sent


async def test_nothing_goes_over_plain_http_or_to_a_forbidden_address() -> None:
    with pytest.raises(SecretFailed, match="over plain HTTP") as failed:
        await MANAGER.sign_in(with_role("http://sts.example.org"))
    assert failed.value.problem is SecretProblem.INVALID
    with pytest.raises(SecretFailed, match="outgoing_allow"):
        await MANAGER.sign_in(call("http://127.0.0.1:1", egress=EgressClient(Allowlist()), role=ROLE))


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"region": "Frankfurt", "role": ROLE}, "configuration.region"),
        ({"region": REGION, "role": "shop"}, "configuration.role"),
        ({"region": REGION}, "configuration.role"),
        ({"region": REGION, "role": ROLE, "access-key-id": "AKIA"}, "configuration.role"),
        ({"region": REGION, "access-key-id": "AKIA"}, "configuration.secret-access-key"),
        ({"region": REGION, "role": ROLE, "endpoint-url": "vpce"}, "configuration.endpoint-url"),
    ],
)
async def test_a_provider_that_cannot_work_is_refused(parameters: dict[str, str], field: str) -> None:
    given = {f"configuration.{name}": value for name, value in parameters.items()}
    assert list(await MANAGER.check(None, given)) == [field]  # type: ignore[arg-type]  # it reads nothing
    fine = {"configuration.region": "cn-north-1", "configuration.role": ROLE.replace("aws", "aws-cn", 1)}
    assert await MANAGER.check(None, fine) == {}  # type: ignore[arg-type]  # it reads nothing
