"""kill -9 in the middle of an import and of edits of roles: all of each is there, or nothing (promise 8)."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.servers import Process, administrator_of
from tests.support.service import YAML

COUNT = 15
LINES = {"Content-Type": "application/x-ndjson"}
MANIFEST = "launch:\n  steps: []\n"
OLD, NEW = "- Read: [/*]\n", "- Read: [/*]\n- CreateInstance: [/*]\n"


async def _set_up(client: httpx.AsyncClient) -> tuple[str, str, str]:
    """Return an organization with several of each kind, a user without roles, and the last of the roles."""
    [organization] = (await client.get("organizations")).json()
    at = f"organizations/{organization['id']}"

    async def made(kind: str, body: dict[str, Any]) -> str:
        answer = await client.post(f"{at}/{kind}", json=body)
        answer.raise_for_status()
        return str(answer.json()["id"])

    role = ""
    for number in range(COUNT):
        await made("environments", {"name": f"environment {number}"})
        role = await made("roles", {"name": f"role {number}", "permissions": OLD})
        application = await made("applications", {"name": f"application {number}"})
        path = f"applications/{application}/manifest"
        (await client.put(path, content=MANIFEST, headers=YAML)).raise_for_status()
    user = await made("users", {"email": "ann@example.org", "name": "Ann", "password": "correct horse 7", "roles": []})
    return organization["id"], user, role


async def _names(client: httpx.AsyncClient, organization: str) -> dict[str, set[str]]:
    kinds = ("environments", "applications", "roles")
    rows = {kind: (await client.get(f"organizations/{organization}/{kind}")).json() for kind in kinds}
    return {kind: {each["name"] for each in found} for kind, found in rows.items()}


async def _is_done(request: "asyncio.Task[httpx.Response]") -> bool:
    """Return whether the server said that it has made the change."""
    try:
        answer = await request
    except httpx.HTTPError:
        return False
    assert answer.status_code == 200, answer.text
    return True


@pytest.mark.faults
async def test_an_import_and_edits_of_roles_are_whole_or_nothing_though_their_server_is_killed(tmp_path: Path) -> None:
    server = Process(["serve", "--port", "0", "--data-dir", str(tmp_path / "data")], tmp_path)
    server.start()
    try:
        async with administrator_of(server) as client:
            organization, user, role = await _set_up(client)
            archive = (await client.get(f"organizations/{organization}/archive")).json()
            lines = (await client.get(f"organizations/{organization}/archive/lines")).content
            whole = await _names(client, organization)
        *roles, former = [f"role {number}" for number in range(COUNT)]
        of_user = f"organizations/{organization}/users/{user}/roles"
        for number, delay_s in enumerate((0.0, 0.02, 0.05, 0.1, 0.2, 0.4)):
            name = f"imported {number}"
            async with administrator_of(server) as client:
                importing, assigning, editing = (
                    asyncio.create_task(each)
                    for each in (
                        client.post("archives", json={"archive": {**archive, "name": name}})
                        if number % 2
                        else client.post("archives/lines", content=lines, headers=LINES, params={"name": name}),
                        client.put(of_user, json=roles),
                        client.put(f"roles/{role}", json={"name": "renamed", "permissions": NEW}),
                    )
                )
                await asyncio.sleep(delay_s)
                server.kill()
                is_imported, is_assigned, is_edited = [await _is_done(each) for each in (importing, assigning, editing)]
            server.start()
            async with administrator_of(server) as client:
                found = [each for each in (await client.get("organizations")).json() if each["name"] == name]
                assert found or not is_imported
                for each in found:
                    assert await _names(client, each["id"]) == whole

                users = (await client.get(f"organizations/{organization}/users")).json()
                [held] = [set(each["roles"]) for each in users if each["id"] == user]
                after = (await client.get(f"roles/{role}")).json()
                assert (after["name"], after["permissions"]) in {(former, OLD), ("renamed", NEW)}
                assert after["name"] == "renamed" or not is_edited
                assert held in (set(), set(roles))
                assert held or not is_assigned
                (await client.put(f"roles/{role}", json={"name": former, "permissions": OLD})).raise_for_status()
                if held:
                    (await client.request("DELETE", of_user, json=roles)).raise_for_status()
    finally:
        server.end()
