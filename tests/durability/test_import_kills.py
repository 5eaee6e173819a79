"""kill -9 in the middle of an import and of edits of roles: all of each is there, or nothing (promise 8)."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.servers import Remote, calling, killed, killed_amid, serving
from tests.support.service import accepted

COUNT = 15
LINES = {"Content-Type": "application/x-ndjson"}
MANIFEST = "launch:\n  steps: []\n"
OLD, NEW = "- Read: [/*]\n", "- Read: [/*]\n- CreateInstance: [/*]\n"


async def _set_up(remote: Remote) -> tuple[str, str]:
    """Make several of each kind; return a user without roles, and the last of the roles."""
    at = f"organizations/{remote.organization}"

    async def made(kind: str, body: dict[str, Any]) -> str:
        return str(accepted(await remote.post(f"{at}/{kind}", body))["id"])

    role = ""
    for number in range(COUNT):
        await made("environments", {"name": f"environment {number}"})
        role = await made("roles", {"name": f"role {number}", "permissions": OLD})
        await remote.application(MANIFEST, f"application {number}")
    user = await made("users", {"email": "ann@example.org", "name": "Ann", "password": "correct horse 7", "roles": []})
    return user, role


async def _names(remote: Remote, organization: str) -> dict[str, set[str]]:
    kinds = ("environments", "applications", "roles")
    return {
        kind: {each["name"] for each in await remote.read(f"organizations/{organization}/{kind}")} for kind in kinds
    }


@pytest.mark.faults
async def test_an_import_and_edits_of_roles_are_whole_or_nothing_though_their_server_is_killed(tmp_path: Path) -> None:
    async with serving(tmp_path, {}) as server:
        async with calling(server) as remote:
            user, role = await _set_up(remote)
            organization = remote.organization
            archive = await remote.read(f"organizations/{organization}/archive")
            lines = (await remote.get(f"organizations/{organization}/archive/lines")).content
            whole = await _names(remote, organization)
        *roles, former = [f"role {number}" for number in range(COUNT)]
        of_user = f"organizations/{organization}/users/{user}/roles"
        for number, delay_s in enumerate((0.0, 0.02, 0.05, 0.1, 0.2, 0.4)):
            name = f"imported {number}"
            async with calling(server) as remote:
                is_imported, is_assigned, is_edited = await killed_amid(
                    server,
                    remote.post("archives", {"archive": {**archive, "name": name}})
                    if number % 2
                    else remote.client.post("archives/lines", content=lines, headers=LINES, params={"name": name}),
                    remote.put(of_user, roles),
                    remote.put(f"roles/{role}", {"name": "renamed", "permissions": NEW}),
                    after_s=delay_s,
                )
            async with killed(server) as remote:
                found = [each for each in await remote.read("organizations") if each["name"] == name]
                assert found or not is_imported
                for each in found:
                    assert await _names(remote, each["id"]) == whole

                users = await remote.read(f"organizations/{organization}/users")
                [held] = [set(each["roles"]) for each in users if each["id"] == user]
                after = await remote.read(f"roles/{role}")
                assert (after["name"], after["permissions"]) in {(former, OLD), ("renamed", NEW)}
                assert after["name"] == "renamed" or not is_edited
                assert held in (set(), set(roles))
                assert held or not is_assigned
                accepted(await remote.put(f"roles/{role}", {"name": former, "permissions": OLD}))
                if held:
                    accepted(await remote.delete(of_user, roles))
