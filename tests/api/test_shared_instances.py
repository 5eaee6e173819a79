"""The shared instances catalog through the API (manifest-language §7 and §8)."""

import asyncio
from typing import Any

import pytest

from tests.support.service import UNKNOWN, Api, accepted, fresh_name

CATALOG = "configuration.shared-instances"


async def catalog(api: Api, entries: Any = None) -> str:
    parameters = {} if entries is None else {CATALOG: entries}
    body = {"name": fresh_name("catalog"), "typeId": "builtin:shared_instances_catalog", "parameters": parameters}
    return str(accepted(await api.post(f"organizations/{api.organization}/services", body))["id"])


async def shareable(api: Api) -> tuple[str, str]:
    """Make a revision and an instance of one application."""
    application = await api.application()
    revision = accepted(await api.post(f"applications/{application}/revisions", {"name": "stable", "version": 1}))["id"]
    return revision, await api.launch(application)


async def entries_of(api: Api, service: str) -> dict[str, str]:
    [result] = accepted(await api.post(f"services/{service}/list"))
    assert list(result) == ["instances"]
    stored = accepted(await api.get(f"services/{service}"))["parameters"].get(CATALOG, {})
    assert stored == result["instances"]
    return dict(stored)


async def add(api: Api, service: str, revision: str, instance: str) -> Any:
    return await api.post(f"services/{service}/add", {"arguments": {"revisionId": revision, "instanceId": instance}})


async def test_entries_are_added_replaced_and_removed_by_commands(api: Api) -> None:
    service = await catalog(api)
    assert await entries_of(api, service) == {}
    revision, instance = await shareable(api)
    assert accepted(await add(api, service, revision, instance)) == [{"revisionId": revision, "instanceId": instance}]
    assert await entries_of(api, service) == {revision: instance}
    application = accepted(await api.get(f"instances/{instance}"))["applicationId"]
    other = await api.launch(application)
    accepted(await add(api, service, revision, other))
    assert await entries_of(api, service) == {revision: other}
    body = {"arguments": {"revisionId": revision}}
    assert accepted(await api.post(f"services/{service}/remove", body)) == [{"removed": True}]
    assert accepted(await api.post(f"services/{service}/remove", body)) == [{"removed": False}]
    assert await entries_of(api, service) == {}


@pytest.mark.parametrize("command", ["strategy.get-shared-instance", "get-shared-instance"])
async def test_the_instance_of_a_revision_is_found_as_older_clients_ask_for_it(api: Api, command: str) -> None:
    revision, instance = await shareable(api)
    service = await catalog(api, {revision: instance})
    asked = await api.post(f"services/{service}/{command}", {"arguments": {"revision": revision}})
    assert accepted(asked) == [{"instance": instance}]
    for arguments, message in (
        ({"revision": UNKNOWN}, f"The catalog has no instance for the revision '{UNKNOWN}'."),
        ({}, "This argument is required."),
    ):
        answer = await api.post(f"services/{service}/{command}", {"arguments": arguments})
        assert (answer.status_code, answer.json()) == (400, {"revision": [message]})
    answer = await api.post(f"services/{service}/shared-instances.get-shared-instance", {"arguments": {}})
    assert answer.status_code == 400
    assert list(answer.json()) == ["commandname"]
    listed = accepted(await api.post(f"services/{service}/shared-instances.list"))
    assert listed == [{"instances": {revision: instance}}]


async def test_a_destroyed_instance_is_shared_no_more(api: Api) -> None:
    revision, instance = await shareable(api)
    service = await catalog(api, {revision: instance})
    await api.settled(instance)
    async with api.database.connection() as connection:
        await connection.execute("UPDATE instances SET status = 'Destroyed' WHERE id = %s", [instance])
    answer = await api.post(f"services/{service}/get-shared-instance", {"arguments": {"revision": revision}})
    message = f"The shared instance {instance} of the revision is destroyed. Add another."
    assert (answer.status_code, answer.json()) == (400, {"revision": [message]})


async def test_entries_are_replaced_as_a_whole_by_an_update(api: Api) -> None:
    pairs = [await shareable(api) for _ in range(2)]
    service = await catalog(api, dict(pairs))
    assert await entries_of(api, service) == dict(pairs)
    for entries in (dict(pairs[:1]), {}):
        accepted(await api.put(f"services/{service}", {"parameters": {CATALOG: entries}}))
        assert await entries_of(api, service) == entries


async def test_an_entry_must_name_a_revision_and_an_instance_of_one_application(api: Api) -> None:
    revision, instance = await shareable(api)
    _, stranger = await shareable(api)
    service = await catalog(api)
    for entry, argument, says in (
        ((UNKNOWN, instance), "revisionId", "no revision"),
        ((instance, instance), "revisionId", "no revision"),
        ((revision, revision), "instanceId", "no instance"),
        ((revision, UNKNOWN), "instanceId", "no instance"),
        (("", instance), "revisionId", "no revision"),
        (("x" * 10_000, instance), "revisionId", "no revision"),
        ((revision, stranger), "instanceId", "isn't of the same application"),
    ):
        added = await add(api, service, *entry)
        assert added.status_code == 400
        assert says in added.json()[argument][0]
        updated = await api.put(f"services/{service}", {"parameters": {CATALOG: dict([entry])}})
        assert updated.status_code == 400
        assert says in updated.json()[CATALOG][0]
    assert await entries_of(api, service) == {}


async def test_nothing_of_another_organization_can_be_shared(api: Api) -> None:
    outsider, organization, _ = await api.outsider()
    application = accepted(await outsider.post(f"organizations/{organization}/applications", {"name": "a"}))["id"]
    body = {"name": "r", "version": 1}
    revision = accepted(await outsider.post(f"applications/{application}/revisions", body))["id"]
    instance = accepted(await outsider.post(f"applications/{application}/launch"))["id"]
    own_revision, own_instance = await shareable(api)
    service = await catalog(api)
    for pair in ((revision, instance), (own_revision, instance), (revision, own_instance)):
        answer = await add(api, service, *pair)
        assert answer.status_code == 400
        assert "The organization has no" in answer.text
    assert await entries_of(api, service) == {}


async def test_an_entry_that_outlived_its_instance_may_stay_and_be_removed(api: Api) -> None:
    revision, instance = await shareable(api)
    service = await catalog(api, {revision: instance})
    await api.settled(instance)
    accepted(await api.delete(f"instances/{instance}?force=1"))
    await api.gone(instance)
    second = await shareable(api)
    accepted(await add(api, service, *second))
    both = {revision: instance, second[0]: second[1]}
    assert await entries_of(api, service) == both
    accepted(await api.put(f"services/{service}", {"parameters": {CATALOG: both}}))
    accepted(await api.post(f"services/{service}/remove", {"arguments": {"revisionId": revision}}))
    assert (await add(api, service, revision, instance)).status_code == 400


async def test_changes_at_the_same_moment_lose_nothing(api: Api) -> None:
    pairs = [await shareable(api) for _ in range(6)]
    service = await catalog(api, dict(pairs[:3]))
    added = (add(api, service, *pair) for pair in pairs[3:])
    removed = (api.post(f"services/{service}/remove", {"arguments": {"revisionId": pair[0]}}) for pair in pairs[:3])
    assert {answer.status_code for answer in await asyncio.gather(*added, *removed)} == {200}
    assert await entries_of(api, service) == dict(pairs[3:])


@pytest.mark.parametrize("entries", [[], "x", 5, {"a": 1.5, "b": ["c"]}, {UNKNOWN: None}])
async def test_a_catalog_of_another_shape_is_refused(api: Api, entries: Any) -> None:
    service = await catalog(api)
    answer = await api.put(f"services/{service}", {"parameters": {CATALOG: entries}})
    assert answer.status_code == 400
    assert list(answer.json()) == [CATALOG]


async def test_a_catalog_has_a_bound(api: Api) -> None:
    service = await catalog(api)
    entries = {f"{number:024x}": UNKNOWN for number in range(10_001)}
    answer = await api.put(f"services/{service}", {"parameters": {CATALOG: entries}})
    assert answer.status_code == 400
    assert "Limit: 10000" in answer.json()[CATALOG][0]
