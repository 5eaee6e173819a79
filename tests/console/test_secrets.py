"""Revealing masked values: by a permission, with a reason, for a short while, in the API and on the pages."""

import re
from typing import Any

import httpx
import pytest

from launchbay.auth.permissions import Permission
from tests.support.pages import browser, get
from tests.support.service import PERSON_PASSWORD, Api, Caller, accepted, fresh_name, person, refused

SECRET = "hush-hush-5731"
MANIFEST = f"""\
application:
  interfaces:
    input: {{ password: bind(web#input.password), size: bind(web#input.size) }}
    result: {{ api-token: bind(web#result.api-token) }}
  components:
    web:
      type: workflow.Instance
      interfaces:
        input: {{ password: configuration(string), size: configuration(int) }}
        result: {{ api-token: publish-signal(string) }}
      configuration:
        input.password: {SECRET}
        input.size: 3
        configuration.workflows:
          launch: {{ steps: [], return: {{ api-token: {{ value: "{SECRET}-returned" }} }} }}
"""


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    """The service with an engine, so that instances return values."""
    return working_service


async def made(api: Api) -> tuple[str, str]:
    """Make an instance and a service that have secrets."""
    instance = await api.launch(await api.application(MANIFEST))
    await api.settled(instance)
    body = {
        "name": fresh_name("cloud"),
        "typeId": "builtin:cloud_account",
        "parameters": {
            "configuration.provider": "aws-ec2",
            "configuration.identity": "me",
            "configuration.credential": SECRET,
        },
    }
    return instance, accepted(await api.post(f"organizations/{api.organization}/services", body))["id"]


async def holder(api: Api, text: str) -> Any:
    role = {"name": fresh_name("role"), "permissions": text}
    accepted(await api.post(f"organizations/{api.organization}/roles", role))
    return await person(api, role["name"])


async def entries(api: Api, operation: str) -> list[Any]:
    rows = accepted(await api.get(f"organizations/{api.organization}/audit"))
    return [row for row in rows if row["operation"] == operation]


async def test_names_of_secrets_are_listed_without_their_values(api: Api) -> None:
    instance, service = await made(api)
    answer = await api.get(f"instances/{instance}/secrets")
    assert accepted(answer) == {"parameters": ["input.password"], "returnValues": ["result.api-token"]}
    assert accepted(await api.get(f"services/{service}/secrets")) == {
        "parameters": ["configuration.credential"],
        "returnValues": [],
    }


async def test_a_revealed_value_is_noted_with_its_reason_and_without_itself(api: Api) -> None:
    instance, service = await made(api)
    asked = {"name": "result.api-token", "kind": "returnValues", "reason": "To check the token."}
    answer = await api.post(f"instances/{instance}/secrets/reveal", asked)
    assert accepted(answer) == {"name": "result.api-token", "value": f"{SECRET}-returned"}
    del asked["kind"]
    answer = await api.post(f"instances/{instance}/secrets/reveal", asked)
    assert accepted(answer)["value"] == f"{SECRET}-returned", "without a kind, it is where the name is"
    wrong = refused(await api.post(f"instances/{instance}/secrets/reveal", asked | {"kind": "outputs"}), 400)
    assert "parameters" in wrong
    assert "returnValues" in wrong
    asked = {"name": "configuration.credential", "reason": "The provider asks."}
    assert accepted(await api.post(f"services/{service}/secrets/reveal", asked))["value"] == SECRET
    entry = (await entries(api, "reveal_service_secret"))[0]
    assert entry["after"] == {"name": "configuration.credential", "reason": "The provider asks."}
    assert entry["object"] == f"/services/{service}"
    assert SECRET not in str(await entries(api, "reveal_instance_secret")) + str(entry)


async def test_without_a_reason_or_with_an_unknown_name_nothing_is_revealed(api: Api) -> None:
    instance, service = await made(api)
    before = len(await entries(api, "reveal_instance_secret"))
    path = f"instances/{instance}/secrets/reveal"
    refused(await api.post(path, {"name": "input.password", "reason": "  "}), 400)
    refused(await api.post(path, {"name": "nothing", "reason": "Why not?"}), 404, "NotFound")
    refused(await api.post(f"services/{service}/secrets/reveal", {"name": "x", "reason": "y"}), 404, "NotFound")
    assert len(await entries(api, "reveal_instance_secret")) == before


EVERYTHING_ELSE = "".join(f"- {each}: [/*]\n" for each in Permission if each is not Permission.REVEAL_SECRETS)


@pytest.mark.parametrize(
    ("text", "of_instance", "of_service"),
    [
        ("- Read: [/*]\n", 403, 403),
        (EVERYTHING_ELSE, 403, 403),
        ("- Read: [/*]\n- RevealSecrets: [/services/*]\n", 403, 200),
        ("- Read: [/*]\n- RevealSecrets: [/*]\n", 200, 200),
    ],
    ids=["reader", "everything else", "services alone", "everything"],
)
async def test_pages_and_api_reveal_by_the_permission_alone(
    api: Api, text: str, of_instance: int, of_service: int
) -> None:
    instance, service = await made(api)
    someone = await holder(api, text)
    asked = {"reason": "The test asks."}
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": someone.email, "password": PERSON_PASSWORD})
        token = (await get(client, "/console/account")).fields["formToken"]
        for noun, object_id, name, status in (
            ("instances", instance, "input.password", of_instance),
            ("services", service, "configuration.credential", of_service),
        ):
            answer = await someone.post(f"{noun}/{object_id}/secrets/reveal", {**asked, "name": name})
            assert answer.status_code == status
            path = f"/console/{noun}/{object_id}/secrets"
            page = await get(client, path)
            assert ("Reveal…" in page.text) is (status == 200), noun
            assert name in page.text
            assert SECRET not in page.answer.text
            form = (await client.get(path, params={"kind": "parameters", "name": name})).text
            assert ('name="reason"' in form) is (status == 200)
            shown = await client.post(path, data={**asked, "formToken": token, "name": name, "kind": "parameters"})
            assert (shown.status_code, SECRET in shown.text) == (status, status == 200)


async def test_a_revealed_value_leaves_the_page_by_itself_and_is_stored_nowhere(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    instance, _ = await made(api)
    token = (await get(visitor, "/console/account")).fields["formToken"]
    sent = {"formToken": token, "name": "input.password", "kind": "parameters", "reason": "To sign in."}
    shown = await visitor.post(f"/console/instances/{instance}/secrets", data=sent)
    assert re.search(rf"<code[^>]*data-shown[^>]*>{SECRET}</code>", shown.text)
    assert shown.headers["refresh"] == f"30; url=/console/instances/{instance}/secrets"
    assert shown.headers["cache-control"] == "no-store"
    assert SECRET not in (await visitor.get(f"/console/instances/{instance}/secrets")).text
    refused_page = await visitor.post(f"/console/instances/{instance}/secrets", data={**sent, "reason": ""})
    assert refused_page.status_code == 400
    assert SECRET not in refused_page.text


async def test_a_token_reveals_only_within_its_scope(api: Api) -> None:
    instance, _ = await made(api)
    tokens = f"organizations/{api.organization}/accessTokens"
    asked = {"name": "input.password", "reason": "A program asks."}
    for scope, status in ((["Read: [/*]"], 403), (["RevealSecrets: [/*]"], 200)):
        token = accepted(await api.post(tokens, {"name": "robot", "scope": scope}))["token"]
        caller: Caller = api.caller(f"Bearer {token}")
        assert (await caller.post(f"instances/{instance}/secrets/reveal", asked)).status_code == status
