"""What versions differ in, and which live instances another version would change."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from launchbay import limits
from launchbay.manifest.meaning import DIGEST_FORM
from launchbay.store import applications as store
from tests.support.applications import picky
from tests.support.service import EMAIL, PASSWORD, YAML, Api, accepted, refused
from tests.support.shell import Shell

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


async def _kept(api: Api, application: str) -> dict[int, dict[str, Any]]:
    """Return what is stored of each version."""
    async with api.database.connection() as connection:
        rows = await connection.execute(
            "SELECT version, digests FROM manifests WHERE application_id = %s AND digests IS NOT NULL", [application]
        )
        return {version: msgspec.json.decode(text) for version, text in await rows.fetchall()}


async def _store(api: Api, application: str, column: str, values: dict[int, str]) -> None:
    """Store texts of versions behind the server's back."""
    async with api.database.transaction() as connection:
        for version, text in values.items():
            await connection.execute(
                f"UPDATE manifests SET {column} = %s WHERE application_id = %s AND version = %s",
                [text, application, version],
            )


_FORM_1 = """{"form":1,"application":"0c41a1f1f9e9a5a3c4cf0c7fbb9a4f0a","components":{"worker":{"own":\
"f2b5e3c1a0d94a7b8c6d5e4f3a2b1c0d","workflows":{"launch":"9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c4d"}}}}"""


async def test_after_an_upgrade_each_request_compiles_only_some_versions(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upgrade raises the form of digests: those that are kept are of no use any more."""
    application = await api.application(picky())
    first = accepted(await api.get(f"applications/{application}"))["version"]
    for number in range(5):
        if number:
            await _upload(api, application, SLOWER.replace("+ 0.1", f"+ 0.{number}"))
        await api.settled(await api.launch(application))
    path = f"applications/{application}/manifests/used"
    known = accepted(await api.get(path))
    assert (known["pending"], [each["pending"] for each in known["used"]]) == (0, [False] * 5)
    versions = range(first, first + 5)
    await _store(api, application, "digests", dict.fromkeys(versions, _FORM_1))
    monkeypatch.setattr(limits, "USED_VERSIONS_COMPILED", 2)

    found = accepted(await api.get(path))
    assert (found["pending"], [each["pending"] for each in found["used"]]) == (3, [False, False, True, True, True])
    assert [each["isSame"] for each in found["used"]] == [True, False, False, False, False]
    kept = await _kept(api, application)
    assert [each for each in versions if kept[each]["form"] == DIGEST_FORM] == [first + 3, first + 4]
    assert accepted(await api.get(path))["pending"] == 1
    assert accepted(await api.get(path)) == known
    assert {kept["form"] for kept in (await _kept(api, application)).values()} == {DIGEST_FORM}

    # So it is with long texts: no further version after one that has used up the bytes.
    await _store(api, application, "digests", dict.fromkeys(versions, _FORM_1))
    monkeypatch.setattr(limits, "USED_VERSIONS_COMPILED_BYTES", 1)
    assert accepted(await api.get(path))["pending"] == 4


async def test_a_version_that_no_longer_compiles_is_remembered(api: Api) -> None:
    application = await api.application(picky())
    old = accepted(await api.get(f"applications/{application}"))["version"]
    new = await _upload(api, application, SLOWER)
    instance = await api.launch(application)
    await api.settled(instance)
    async with api.database.transaction() as connection:  # this server has never compiled what the instance runs
        await connection.execute("UPDATE instances SET version = %s WHERE id = %s", [old, instance])
    path = f"applications/{application}/manifests/used"
    await _store(api, application, "digests", {old: _FORM_1})
    await _store(api, application, "content", {old: "launch: 1"})
    [used] = accepted(await api.get(path))["used"]
    assert (used["version"], used["isSame"], used["pending"], used["components"]) == (old, False, False, [])
    assert "launch" in used["problem"]
    # Whoever asks for the version itself hears all that is wrong with it.
    refused(await api.get(path, version=old), 400)
    # It isn't compiled again: nobody notices that it would compile now.
    await _store(api, application, "content", {old: picky()})
    assert accepted(await api.get(path))["used"] == [used]
    # Another release, or other plug-ins, may accept it.
    kept = (await _kept(api, application))[old]
    await _store(api, application, "digests", {old: msgspec.json.encode({**kept, "compiler": "another"}).decode()})
    [used] = accepted(await api.get(path, version=new))["used"]
    assert (used["problem"], [each["path"] for each in used["components"]]) == (None, ["worker"])


async def test_digests_that_others_stored_meanwhile_stay(api: Api) -> None:
    application = await api.application(picky())
    version = accepted(await api.get(f"applications/{application}"))["version"]
    path = f"applications/{application}/manifests/used"
    later = _FORM_1.replace('"form":1', f'"form":{DIGEST_FORM + 1}')
    await _store(api, application, "digests", {version: later})
    accepted(await api.get(path))
    assert (await _kept(api, application))[version] == msgspec.json.decode(later)
    async with api.database.transaction() as connection:
        await store.set_digests(
            connection, application_id=application, version=version, digests="{}", former="of another server"
        )
    assert (await _kept(api, application))[version] == msgspec.json.decode(later)


async def test_instances_that_one_may_not_read_do_not_count(api: Api) -> None:
    application = await api.application(picky())
    await api.settled(await api.launch(application))
    member = await api.member(f"Read: [/applications/{application}]")
    assert accepted(await member.get(f"applications/{application}/manifests/used"))["used"] == []


@pytest.mark.features("history")
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


async def test_the_command_asks_again_until_nothing_is_pending(
    api: Api, port: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    application = await api.application(picky())
    first = accepted(await api.get(f"applications/{application}"))["version"]
    for number in range(5):
        if number:
            await _upload(api, application, SLOWER.replace("+ 0.1", f"+ 0.{number}"))
        await api.settled(await api.launch(application))
    known = accepted(await api.get(f"applications/{application}/manifests/used"))
    await _store(api, application, "digests", dict.fromkeys(range(first, first + 5), _FORM_1))
    monkeypatch.setattr(limits, "USED_VERSIONS_COMPILED", 2)
    names = {"LAUNCHBAY_URL": f"http://127.0.0.1:{port}", "LAUNCHBAY_EMAIL": EMAIL, "LAUNCHBAY_PASSWORD": PASSWORD}
    shell = Shell(tmp_path / "config", {**names, "LAUNCHBAY_ORGANIZATION": api.organization})
    text = await asyncio.to_thread(shell.good, "diff", f"{application}@newest", "--used", "-o", "json")
    # The server is in this process, and logs into the same stream.
    shown = json.loads("\n".join(line for line in text.splitlines() if not line.startswith("level=")))
    assert (shown["pending"], [each["isSame"] for each in shown["used"]]) == (
        0,
        [each["isSame"] for each in known["used"]],
    )
    assert not any(each["pending"] for each in shown["used"])
