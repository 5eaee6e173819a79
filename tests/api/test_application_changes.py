"""Reading, renaming and deleting applications (api-decisions, "Beyond the reference")."""

import asyncio
import time

from tests.api.running import UNKNOWN, Api, accepted, fresh_name, refused


async def test_an_application_is_read_in_full(api: Api) -> None:
    name = fresh_name("app")
    application = await api.application("launch: {steps: []}", name)
    document = accepted(await api.get(f"applications/{application}"))
    assert abs(document.pop("createdAt") - time.time() * 1000) < 60_000
    assert document == {
        "id": application,
        "name": name,
        "organizationId": api.organization,
        "version": 2,
        "sourceUrl": None,
    }


async def test_an_application_can_be_renamed(api: Api) -> None:
    application, other, name = await api.application(), await api.application(), fresh_name("app")
    assert accepted(await api.put(f"applications/{application}", {"name": f" {name} "})) == {}
    assert accepted(await api.get(f"applications/{application}"))["name"] == name
    accepted(await api.put(f"applications/{application}", {"name": name}))
    refused(await api.put(f"applications/{other}", {"name": name}), 400, "NameTaken")
    refused(await api.put(f"applications/{other}", {"name": " "}), 400, "InvalidName")
    refused(await api.put(f"applications/{other}", {}), 400, "WrongField")
    refused(await api.put(f"applications/{UNKNOWN}", {"name": name}), 404, "NotFound")


async def test_an_application_with_instances_that_are_not_destroyed_cannot_be_deleted(api: Api) -> None:
    application = await api.application()
    instances = [await api.launch(application) for _ in range(2)]
    for instance in instances:
        await api.settled(instance)
    answer = await api.delete(f"applications/{application}")
    assert "instances that are not destroyed (2)" in refused(answer, 400, "ApplicationInUse")
    await api.run(instances[0], "destroy")
    assert "(1)" in refused(await api.delete(f"applications/{application}"), 400, "ApplicationInUse")
    await api.run(instances[1], "destroy")
    assert accepted(await api.delete(f"applications/{application}")) == {}


async def test_everything_of_a_deleted_application_goes_with_it(api: Api) -> None:
    name = fresh_name("app")
    application = await api.application("launch: {steps: []}", name)
    body = {"name": "stable", "version": 1}
    revision = accepted(await api.post(f"applications/{application}/revisions", body))["id"]
    instance = await api.running(None)
    own = await api.launch(application, revisionId=revision)
    await api.settled(own)
    await api.run(own, "destroy")
    accepted(await api.delete(f"applications/{application}"))
    for path in (f"applications/{application}", f"revisions/{revision}", f"instances/{own}"):
        refused(await api.get(path), 404, "NotFound")
    refused(await api.delete(f"applications/{application}"), 404, "NotFound")
    assert (await api.document(instance))["status"] == "Running"
    assert await api.application(name=name) != application


async def test_launches_uploads_and_a_deletion_at_the_same_moment_are_never_a_500(api: Api) -> None:
    for _ in range(5):
        application = await api.application()
        body = {"name": "r", "version": 1}
        *others, deleted = await asyncio.gather(
            *(api.post(f"applications/{application}/launch") for _ in range(3)),
            api.put_yaml(f"applications/{application}/manifest", "launch: {steps: []}"),
            api.post(f"applications/{application}/revisions", body),
            api.get(f"applications/{application}/manifest"),
            api.delete(f"applications/{application}"),
        )
        assert {answer.status_code for answer in others} <= {200, 400, 404, 409}
        assert deleted.status_code in {200, 400}
        if deleted.status_code == 200:
            refused(await api.get(f"applications/{application}"), 404)


async def test_nobody_changes_what_they_may_not(api: Api) -> None:
    application = await api.application()
    outsider, _, _ = await api.outsider()
    reader = await api.member("Read: [/*]")
    editor = await api.member("EditApplication: [/*]")
    deleter = await api.member(f"DeleteApplication: [/applications/{application}]")
    accepted(await reader.get(f"applications/{application}"))
    refused(await outsider.get(f"applications/{application}"), 403, "NotAllowed")
    for caller in (outsider, reader, deleter):
        refused(await caller.put(f"applications/{application}", {"name": "n"}), 403, "NotAllowed")
    for caller in (outsider, reader, editor):
        refused(await caller.delete(f"applications/{application}"), 403, "NotAllowed")
    accepted(await editor.put(f"applications/{application}", {"name": fresh_name("app")}))
    accepted(await deleter.delete(f"applications/{application}"))


async def test_the_list_can_be_read_page_by_page(api: Api) -> None:
    for _ in range(3):
        await api.application()
    path = f"organizations/{api.organization}/applications"
    everything = sorted(row["id"] for row in accepted(await api.get(path)))
    first = await api.get(path, limit=2)
    assert [row["id"] for row in accepted(first)] == everything[:2]
    assert f"after={everything[1]}" in first.headers["link"]
    rest = await api.get(path, after=everything[1])
    assert [row["id"] for row in accepted(rest)] == everything[2:]
    assert "link" not in rest.headers
    refused(await api.get(path, limit=0), 400)
    refused(await api.get(path, after="x"), 400)
