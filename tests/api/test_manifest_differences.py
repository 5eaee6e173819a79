"""What versions differ in, and which live instances another version would change."""

from typing import Any

import pytest

from tests.support.applications import picky
from tests.support.service import YAML, Api, accepted, refused

SLOWER = picky().replace('delay: "{$.size}"', 'delay: "{$.size + 0.1}"')


async def _upload(api: Api, application: str, text: str) -> int:
    version: int = accepted(await api.put_yaml(f"applications/{application}/manifest", text))["version"]
    return version


async def test_two_versions_are_compared_whole(api: Api) -> None:
    application = await api.application(picky())
    old = accepted(await api.get(f"applications/{application}"))["version"]
    new = await _upload(api, application, SLOWER.replace("input.size: 1", "input.size: 2"))
    found: Any = accepted(await api.get(f"applications/{application}/manifests/difference"))
    assert (found["version"], found["against"], found["isSame"]) == (new, old, False)
    difference = found["difference"]
    assert difference["components"]["changed"] == ["worker"]
    assert difference["defaults"] == [
        {"component": "worker", "pin": "input.size", "from": 1, "to": 2, "change": "changed"}
    ]
    [code] = difference["code"]
    assert [line[0] for line in code["workflows"][0]["steps"][0]["diff"]] == ["-", "+"]
    whole = accepted(await api.get(f"applications/{application}/manifests/difference", version=new, against=0))
    assert whole["difference"]["components"]["added"] == ["worker"]


async def test_a_comment_makes_versions_no_different(api: Api) -> None:
    application = await api.application(picky())
    await _upload(api, application, f"# why\n{picky()}")
    found = accepted(await api.get(f"applications/{application}/manifests/difference"))
    assert found["isSame"]


async def test_an_unsaved_text_is_compared_with_the_newest_version(api: Api) -> None:
    application = await api.application(picky())
    path = f"applications/{application}/manifests/difference"
    found = accepted(await api.send("POST", path, SLOWER.encode(), **YAML))
    assert (found["version"], found["isSame"]) == (None, False)
    refused(await api.send("POST", path, b"launch: 1", **YAML), 400)
    assert accepted(await api.send("POST", path, picky().encode(), **YAML))["isSame"]


@pytest.mark.parametrize("query", [{"version": 99}, {"against": 99}, {"version": -1}, {"against": 10**30}])
async def test_an_unknown_version_is_refused(api: Api, query: dict[str, int]) -> None:
    application = await api.application(picky())
    refused(await api.get(f"applications/{application}/manifests/difference", **query), 400)


async def test_who_would_change_is_known_without_compiling(api: Api) -> None:
    application = await api.application(picky())
    old = accepted(await api.get(f"applications/{application}"))["version"]
    instances = [await api.launch(application) for _ in range(2)]
    for instance in instances:
        await api.settled(instance)
    new = await _upload(api, application, SLOWER)
    path = f"applications/{application}/manifests/used"
    found = accepted(await api.get(path))
    [used] = found["used"]
    assert (found["version"], used["version"], used["instances"], used["isSame"]) == (new, old, 2, False)
    [changed] = used["components"]
    assert (changed["path"], changed["change"], changed["other"]) == ("worker", "changed", False)
    assert len(changed["workflows"]) == 1
    assert accepted(await api.get(path, version=old))["used"][0]["isSame"]
    # The stored digests decide: if they are equal, nothing changes.
    async with api.database.transaction() as connection:
        await connection.execute(
            "UPDATE manifests SET digests = (SELECT digests FROM manifests WHERE application_id = %s AND version = %s)"
            " WHERE application_id = %s",
            [application, new, application],
        )
    assert accepted(await api.get(path))["used"][0]["isSame"]


async def test_digests_that_are_missing_are_computed_and_kept(api: Api) -> None:
    application = await api.application(picky())
    await api.settled(await api.launch(application))
    await _upload(api, application, SLOWER)
    path = f"applications/{application}/manifests/used"
    found = accepted(await api.get(path))
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE manifests SET digests = NULL WHERE application_id = %s", [application])
    assert accepted(await api.get(path)) == found
    async with api.database.connection() as connection:
        kept = await connection.execute(
            "SELECT version FROM manifests WHERE application_id = %s AND digests IS NOT NULL", [application]
        )
        assert {version for (version,) in await kept.fetchall()} == {found["version"], found["used"][0]["version"]}


async def test_instances_that_one_may_not_read_do_not_count(api: Api) -> None:
    application = await api.application(picky())
    await api.settled(await api.launch(application))
    member = await api.member(f"Read: [/applications/{application}]")
    assert accepted(await member.get(f"applications/{application}/manifests/used"))["used"] == []


async def test_two_instances_are_compared_with_their_manifests(api: Api) -> None:
    application = await api.application(picky())
    one = await api.launch(application)
    await _upload(api, application, SLOWER)
    other = await api.launch(application)
    for instance in (one, other):
        await api.settled(instance)
    found = accepted(await api.get(f"instances/{one}/diff", otherId=other))
    assert [each["path"] for each in found["manifest"]["code"]] == ["worker"]
    same = accepted(await api.get(f"instances/{one}/diff", otherId=one))["manifest"]
    assert (same["code"], same["components"]["changed"]) == ([], [])
    blind = await api.member("Read: [/applications/*/instances/*, /environments/*]")
    assert accepted(await blind.get(f"instances/{one}/diff", otherId=other))["manifest"] is None


async def test_another_version_is_previewed_with_what_an_instance_was_given(api: Api) -> None:
    application = await api.application(picky())
    instance = await api.launch(application, parameters={"input.size": 0})
    await api.settled(instance)
    await _upload(api, application, SLOWER.replace("input.size: 1", "input.size: 2"))
    [component] = accepted(await api.get(f"instances/{instance}/configuration/preview"))["components"]
    assert (component["path"], component["parameters"]) == ("worker", [])
    assert component["code"]["workflows"]
    reader = await api.member("Read: [/*]")
    refused(await reader.get(f"instances/{instance}/configuration/preview"), 403)
