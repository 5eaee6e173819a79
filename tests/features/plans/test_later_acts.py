"""Plans with an act that only a later version knows, while both versions serve."""

import msgspec
import pytest

from launchbay.auth.secret_key import KeyFile, SecretKey
from launchbay.features.plans.rows import request_purpose
from tests.support.eventually import eventually
from tests.support.service import Api, accepted, refused


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    return working_service


async def test_a_plan_of_a_later_version_is_left_to_a_server_of_that_and_keeps_nobody_waiting(api: Api) -> None:
    application = await api.application("launch: {steps: []}\n")
    body = {"act": "launch", "applicationId": application}
    theirs = accepted(await api.post(f"organizations/{api.organization}/plans", body))["id"]
    await made(api, theirs)
    key = SecretKey(KeyFile(api.settings.key_file()).lines()[0][1])
    sealed = key.seal(msgspec.json.encode({"act": "later", "application_id": application}), request_purpose(theirs))
    async with api.database.transaction() as connection:
        await connection.execute(
            "UPDATE plans SET request = %s, status = 'Waiting', result = NULL, digest = NULL, fence = 0 WHERE id = %s",
            [sealed, theirs],
        )

    ours = accepted(await api.post(f"organizations/{api.organization}/plans", body))["id"]

    await made(api, ours)
    refused(await api.get(f"plans/{theirs}"), 503, "Unavailable")
    for _ in range(3):
        await api.round_of("plans")
    async with api.database.transaction() as connection:
        statement = "SELECT status, lease_until IS NULL, fence FROM plans WHERE id = %s"
        found = await (await connection.execute(statement, [theirs])).fetchone()
        await connection.execute("DELETE FROM plans WHERE id = %s", [theirs])
    assert found == ("Waiting", True, 0), "it waits, without a lease, and no attempt was counted"


async def made(api: Api, plan: str) -> None:
    await eventually(lambda: api.read(f"plans/{plan}"), lambda found: found["status"] == "Planned")
