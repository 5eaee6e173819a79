"""`PUT instances/{id}/environments`: who may offer what, where, and what becomes of the expiry."""

from typing import Any

from tests.support.applications import NEEDY, SPEAKER, behind, child_of, environment, offer, offered, parent_and_child
from tests.support.service import UNKNOWN, Api, accepted, fresh_name, refused


async def shown(api: Api, instance: str) -> Any:
    return accepted(await api.get(f"instances/{instance}/environments"))


async def test_an_instance_is_offered_in_exactly_the_environments_of_the_request(api: Api) -> None:
    instance = await api.running(SPEAKER)
    first, second, third = [await environment(api) for _ in range(3)]
    assert await shown(api, instance) == {"environments": []}
    for wanted in ([first, second], [second, third, third], [second, third], []):
        accepted(await api.put(f"instances/{instance}/environments", {"environments": wanted}))
        assert await shown(api, instance) == {"environments": sorted(set(wanted))}


async def test_an_offered_instance_expires_no_more_not_even_when_the_offer_ends(api: Api) -> None:
    instance = await api.running(SPEAKER, destroyInterval=1_500)
    assert (await api.document(instance))["destroyAt"] is not None
    await offer(api, instance)
    assert (await api.document(instance))["destroyAt"] is not None, "nothing was offered"
    where = await environment(api)
    await offer(api, instance, where)
    assert (await api.document(instance))["destroyAt"] is None
    await offer(api, instance)
    assert (await api.document(instance))["destroyAt"] is None
    async with api.database.connection() as connection:
        [pending] = await (
            await connection.execute("SELECT count(*) FROM schedules WHERE instance_id = %s", [instance])
        ).fetchone() or [None]
    assert pending == 0


async def test_environments_that_are_none_of_the_organization_are_named(api: Api) -> None:
    instance = await api.running(SPEAKER)
    _, _, foreign = await api.outsider()
    where = await environment(api)
    body = {"environments": [where, UNKNOWN, foreign, "x"]}
    told = refused(await api.put(f"instances/{instance}/environments", body), 400, "UnknownId")
    assert UNKNOWN in told
    assert foreign in told
    assert where not in told
    assert await shown(api, instance) == {"environments": []}


async def test_an_environment_lists_the_instances_that_it_offers(api: Api) -> None:
    where, other = await environment(api), await environment(api)
    assert accepted(await api.get(f"environments/{where}/offers")) == []
    first, second = await api.running(SPEAKER), await api.running(SPEAKER, instanceName="the second")
    await offer(api, second, where)
    await offer(api, first, where, other)
    listed = accepted(await api.get(f"environments/{where}/offers"))
    assert [item["id"] for item in listed] == [first, second]
    application = (await api.document(second))["applicationId"]
    shown_second = {"id": second, "name": "the second", "application": application, "status": "Running"}
    assert shown_second in listed
    await offer(api, first, other)
    assert [item["id"] for item in accepted(await api.get(f"environments/{where}/offers"))] == [second]
    stranger, _, _ = await api.outsider()
    refused(await stranger.get(f"environments/{where}/offers"), 403)
    reader = await api.member("Read: [/environments/*]")
    assert len(accepted(await reader.get(f"environments/{other}/offers"))) == 1


async def test_a_body_of_another_shape_is_refused(api: Api) -> None:
    instance = await api.running(SPEAKER)
    bodies: list[Any] = [{}, {"environments": None}, {"environments": "x"}, {"environments": [1]}, []]
    for body in bodies:
        refused(await api.put(f"instances/{instance}/environments", body), 400, "WrongField")
    too_many = {"environments": [f"{number:024x}" for number in range(1_001)]}
    refused(await api.put(f"instances/{instance}/environments", too_many), 400, "TooMany")


async def test_a_destroyed_instance_cannot_be_offered_but_withdrawn(api: Api) -> None:
    instance, where = await offered(api, SPEAKER)
    await api.run(instance, "destroy")
    body = {"environments": [where]}
    refused(await api.put(f"instances/{instance}/environments", body), 400, "InstanceDestroyed")
    await offer(api, instance)
    assert await shown(api, instance) == {"environments": []}


async def test_an_instance_of_a_submodule_cannot_be_offered(api: Api) -> None:
    child = child_of(await api.settled(await api.launch(await parent_and_child(api))))
    body = {"environments": [await environment(api)]}
    refused(await api.put(f"instances/{child}/environments", body), 403, "SubmoduleInstance")


async def test_the_permissions_are_for_the_instance_and_each_environment_that_comes_or_goes(api: Api) -> None:
    instance = await api.running(SPEAKER)
    mine, other = await environment(api), await environment(api)
    path = f"instances/{instance}/environments"
    reader = await api.member("Read: [/*]")
    assert accepted(await reader.get(path)) == {"environments": []}
    refused(await reader.put(path, {"environments": [mine]}), 403)
    member = await api.member(
        "Read: [/*]", "EditInstance: [/applications/*]", f"EditEnvironment: [/environments/{mine}]"
    )
    accepted(await member.put(path, {"environments": [mine]}))
    told = refused(await member.put(path, {"environments": [mine, other]}), 403)
    assert "EditEnvironment" in told
    await offer(api, instance, mine, other)
    refused(await member.put(path, {"environments": []}), 403)
    accepted(await member.put(path, {"environments": [other]}))
    assert await shown(api, instance) == {"environments": [other]}
    stranger, _, _ = await api.outsider()
    for answer in (await stranger.get(path), await stranger.put(path, {"environments": []})):
        refused(answer, 403)


async def test_offers_go_with_the_instance_and_with_the_environment(api: Api) -> None:
    instance, where = await offered(api, SPEAKER)
    accepted(await api.delete(f"environments/{where}"))
    assert await shown(api, instance) == {"environments": []}
    where = await environment(api)
    await offer(api, instance, where)
    accepted(await api.delete(f"instances/{instance}?force=1"))
    await api.gone(instance)
    accepted(await api.delete(f"environments/{where}"))


async def test_an_offer_is_in_the_audit_log(api: Api) -> None:
    instance, where = await offered(api, SPEAKER)
    application = (await api.document(instance))["applicationId"]
    about = f"/applications/{application}/instances/{instance}"
    entries = accepted(await api.get(f"organizations/{api.organization}/audit", object=about))
    [entry] = [each for each in entries if each["operation"] == "replace_instance_environments"]
    assert (entry["before"], entry["after"]) == ({"environments": []}, {"environments": [where]})


async def test_an_instance_offered_in_one_environment_may_run_in_another(api: Api) -> None:
    elsewhere = await environment(api)
    service, where = await offered(api, SPEAKER, environmentId=elsewhere)
    application = await api.application(NEEDY, fresh_name("listener"))
    refused(await api.post(f"applications/{application}/launch", {"environmentId": elsewhere}), 400, "CannotLaunch")
    document = await api.settled(await api.launch(application, environmentId=where))
    assert behind(document) == service
