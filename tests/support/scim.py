"""An identity provider that adds and removes people over SCIM."""

from typing import Any

import httpx

from tests.support.service import Api, Caller, accepted, fresh_email, fresh_name

ROOT = "http://launchbay/scim/v2"
USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
ERROR = "urn:ietf:params:scim:api:messages:2.0:Error"


class Provider:
    """The identity provider of an organization."""

    def __init__(self, api: Api, token: str) -> None:
        self.client = api.caller(f"Bearer {token}").client
        self.token = token

    async def send(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        sent = {"Content-Type": "application/scim+json", **headers} if body is not None else headers
        return await self.client.request(method, f"{ROOT}{path}", json=body, headers=sent)

    async def user(self, email: str = "", **more: Any) -> Any:
        body = {"schemas": [USER], "userName": email or fresh_email(), **more}
        return done(await self.send("POST", "/Users", body), 201)

    async def group(self, name: str = "", *members: str) -> Any:
        body = {
            "schemas": [GROUP],
            "displayName": name or fresh_name("group"),
            "members": [{"value": each} for each in members],
        }
        return done(await self.send("POST", "/Groups", body), 201)

    async def patch(self, path: str, *operations: Any) -> httpx.Response:
        return await self.send("PATCH", path, {"schemas": [PATCH], "Operations": list(operations)})


def done(answer: httpx.Response, status: int = 200) -> Any:
    """Check that an answer is a success of SCIM, and return its document."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/scim+json"
    return answer.json()


def refused(answer: httpx.Response, status: int, scim_type: str | None = None) -> str:
    """Check that an answer is an error of SCIM, and return its sentence."""
    document = answer.json()
    assert (answer.status_code, document["status"]) == (status, str(status)), answer.text
    assert document["schemas"] == [ERROR]
    assert document.get("scimType") == scim_type, document
    assert answer.headers["content-type"] == "application/scim+json"
    return str(document["detail"])


async def provider_of(api: Api, organization: str = "", by: Caller | None = None) -> Provider:
    """Return the provider of an organization, with a token that does nothing else."""
    by, organization = by or api, organization or api.organization
    role = fresh_name("provisioner")
    text = "- ProvisionUsers: [/*]\n"
    accepted(await by.post(f"organizations/{organization}/roles", {"name": role, "permissions": text}))
    body = {"name": fresh_name("provider"), "roles": [role]}
    account = accepted(await by.post(f"organizations/{organization}/serviceAccounts", body))["id"]
    token = {"name": "SCIM", "owner": account, "scope": ["ProvisionUsers: [/*]"]}
    return Provider(api, accepted(await by.post(f"organizations/{organization}/accessTokens", token))["token"])
