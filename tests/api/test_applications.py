"""Organizations, applications, manifests and revisions (reference §4; conformance.md "Wire")."""

import asyncio
import json
import time

import pytest

from launchbay import limits
from launchbay.ids import is_id, new_id
from tests.support.manifests import TYPED
from tests.support.service import UNKNOWN, YAML, Api, accepted, fresh_name, refused


@pytest.fixture
def path(api: Api) -> str:
    return f"organizations/{api.organization}/applications"


async def test_a_caller_sees_the_own_organizations_in_exactly_the_fields_of_the_reference(api: Api) -> None:
    [organization] = accepted(await api.get("organizations"))
    assert set(organization) == {"id", "name"}
    assert is_id(organization["id"])
    assert organization["name"] == "Default"


async def test_who_belongs_to_no_organization_sees_an_empty_list(api: Api) -> None:
    outsider, organization, _ = await api.outsider()
    async with api.database.transaction() as connection:
        await connection.execute("DELETE FROM memberships WHERE organization_id = %s", [organization])
    assert accepted(await outsider.get("organizations")) == []


async def test_a_new_application_is_listed_and_runs_the_default_manifest(api: Api, path: str) -> None:
    name = fresh_name()
    created = accepted(await api.post(path, {"name": name}))
    assert set(created) == {"id"}
    assert is_id(created["id"])
    listed = accepted(await api.get(path))
    assert {"id": created["id"], "name": name} in listed
    instance = await api.launch(created["id"])
    document = await api.settled(instance)
    assert (document["status"], document["version"]) == ("Running", 1)


async def test_applications_are_listed_by_name(api: Api, path: str) -> None:
    for name in ("zebra", "aardvark", "Monkey"):
        await api.application(name=f"{name} {new_id()}")
    names = [row["name"] for row in accepted(await api.get(path))]
    positions = [next(i for i, found in enumerate(names) if found.startswith(name)) for name in ("aardvark", "zebra")]
    assert positions == sorted(positions)


async def test_the_list_shows_only_what_the_caller_may_read(api: Api, path: str) -> None:
    mine, _ = await api.application(), await api.application()
    reader = await api.member(f"Read: [/applications/{mine}]")
    assert [row["id"] for row in accepted(await reader.get(path))] == [mine]
    nobody = await api.member()
    assert accepted(await nobody.get(path)) == []


async def test_a_name_that_is_taken_is_refused_and_the_other_one_stays(api: Api, path: str) -> None:
    name = fresh_name()
    accepted(await api.post(path, {"name": name}))
    assert name in refused(await api.post(path, {"name": name}), 400, "NameTaken")
    refused(await api.post(path, {"name": f"  {name} "}), 400, "NameTaken")
    assert [row["name"] for row in accepted(await api.get(path))].count(name) == 1


async def test_of_two_creations_with_one_name_at_once_one_is_accepted(api: Api, path: str) -> None:
    name = fresh_name()
    answers = await asyncio.gather(*(api.post(path, {"name": name}) for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 7


@pytest.mark.parametrize("name", ["", "   ", "x" * (limits.NAME_CHARS + 1)])
async def test_a_name_that_is_empty_or_too_long_is_refused(api: Api, path: str, name: str) -> None:
    assert str(limits.NAME_CHARS) in refused(await api.post(path, {"name": name}), 400, "InvalidName")


@pytest.mark.parametrize("name", ["a\nb", "a\tb", "safe\u202egpj.exe", "a\u2066b", "\u200b"])
async def test_a_name_that_breaks_or_turns_its_line_is_refused(api: Api, path: str, name: str) -> None:
    refused(await api.post(path, {"name": name}), 400, "InvalidName")


@pytest.mark.parametrize(
    "name", ["x" * limits.NAME_CHARS, "👩\u200d🚀 東京\u3000支店", "Ünïcödé 🚀 'quoted' \"twice\" <b>", "a/b%2f?#"]
)
async def test_any_other_name_is_kept_as_it_is(api: Api, path: str, name: str) -> None:
    created = accepted(await api.post(path, {"name": name}))
    assert {"id": created["id"], "name": name} in accepted(await api.get(path))


@pytest.mark.parametrize(
    "body",
    [{}, {"name": None}, {"name": 5}, {"name": ["x"]}, {"Name": "x"}],
    ids=["none", "null", "int", "list", "case"],
)
async def test_a_creation_without_a_name_says_so(api: Api, path: str, body: object) -> None:
    assert "name" in refused(await api.post(path, body), 400, "WrongField")


async def test_fields_that_a_newer_client_may_send_are_ignored(api: Api, path: str) -> None:
    accepted(await api.post(path, {"name": fresh_name(), "description": "what for"}))


async def test_each_manifest_gets_the_next_version(api: Api) -> None:
    application = await api.application()
    for version in (2, 3):
        answer = accepted(await api.put_yaml(f"applications/{application}/manifest", TYPED))
        assert answer == {"version": version}


async def test_manifests_sent_at_once_get_different_versions(api: Api) -> None:
    application = await api.application()
    answers = await asyncio.gather(*(api.put_yaml(f"applications/{application}/manifest", TYPED) for _ in range(8)))
    assert sorted(accepted(answer)["version"] for answer in answers) == list(range(2, 10))


async def test_a_refused_manifest_uses_no_version_and_changes_nothing(api: Api) -> None:
    application = await api.application()
    path = f"applications/{application}/manifest"
    refused(await api.put_yaml(path, "application: {components: {x: }}"), 400, "InvalidManifest")
    assert (await api.settled(await api.launch(application)))["version"] == 1
    assert accepted(await api.put_yaml(path, TYPED)) == {"version": 2}


async def test_a_wrong_manifest_is_refused_with_every_finding_at_its_place(api: Api) -> None:
    text = "launch:\n  steps:\n    - one: {action: nonsense}\n    - two: {action: rubbish}\n"
    answer = await api.put_yaml(f"applications/{await api.application()}/manifest", text)
    sentences = refused(answer, 400, "InvalidManifest")
    assert "Line 3" in sentences
    assert "Line 4" in sentences
    assert "nonsense" in sentences
    assert [set(finding) for finding in answer.json()["findings"]] == [{"message", "line", "column", "code"}] * 2


async def test_warnings_do_not_refuse_a_manifest_and_come_with_the_version(api: Api) -> None:
    path = f"applications/{await api.application()}/manifest"
    text = "launch:\n  steps:\n    - one: {action: getInstanceContext, precedingPhases: [never]}\n"
    plain = await api.put_yaml(path, text)
    assert accepted(plain) == {"version": 2}
    answer = accepted(await api.put_yaml(f"{path}?include=warnings", text))
    [warning] = answer["warnings"]
    assert (answer["version"], warning["code"], warning["line"]) == (3, "UnknownPhase", 3)
    [told] = json.loads(plain.headers["Launchbay-Warnings"])
    assert told == f"Line 3, column {warning['column']}: {warning['message']}"
    checked = await api.send("POST", "manifests/validate", text.encode(), content_type=YAML["Content-Type"])
    assert accepted(checked)["warnings"] == [warning]
    assert accepted(await api.put_yaml(path, "launch: {steps: []}")) == {"version": 4}


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "text/yaml", "application/x-www-form-urlencoded", "application/yaml", "text/plain"],
)
async def test_a_manifest_of_another_content_type_is_400(api: Api, content_type: str) -> None:
    path = f"applications/{await api.application()}/manifest"
    answer = await api.send("PUT", path, b"launch: {steps: []}", content_type=content_type)
    assert "application/x-yaml" in refused(answer, 400, "WrongContentType")
    refused(await api.send("PUT", path, b"launch: {steps: []}"), 400, "WrongContentType")


@pytest.mark.parametrize("content_type", ["application/x-yaml; charset=utf-8", "Application/X-YAML;charset=UTF-8"])
async def test_a_charset_beside_the_content_type_is_fine(api: Api, content_type: str) -> None:
    path = f"applications/{await api.application()}/manifest"
    accepted(await api.send("PUT", path, b"launch: {steps: []}", content_type=content_type))


async def test_a_manifest_that_comes_from_a_url_cannot_be_replaced(api: Api) -> None:
    application = await api.application()
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE applications SET source_url = 'http://x' WHERE id = %s", [application])
    path = f"applications/{application}/manifest"
    refused(await api.put_yaml(path, TYPED), 401, "ManifestSourceLocked")
    refused(await api.send("PUT", path, b"{}", content_type="text/plain"), 400, "WrongContentType")


async def test_a_new_manifest_counts_for_the_next_launch_and_not_for_instances_that_run(api: Api) -> None:
    application = await api.application()
    old = await api.launch(application)
    accepted(await api.put_yaml(f"applications/{application}/manifest", TYPED))
    new = await api.launch(application)
    assert (await api.settled(old))["version"] == 1
    assert (await api.settled(new))["returnValues"] == {"result.seen": {"size": 1, "tags": []}}


async def test_named_revisions_are_listed_by_name_in_exactly_the_fields_of_the_reference(api: Api) -> None:
    application = await api.application()
    path = f"applications/{application}/revisions"
    assert accepted(await api.get(path)) == []
    ids = {name: new_id() for name in ("stable", "candidate")}
    async with api.database.transaction() as connection:
        for name, revision in ids.items():
            statement = "INSERT INTO revisions (id, application_id, name, version) VALUES (%s, %s, %s, 1)"
            await connection.execute(statement, [revision, application, name])
    expected = [{"id": ids["candidate"], "name": "candidate"}, {"id": ids["stable"], "name": "stable"}]
    assert accepted(await api.get(path)) == expected


async def test_a_manifest_can_be_checked_without_being_stored(api: Api) -> None:
    text = "launch:\n  steps:\n    - one: {action: nonsense, precedingPhases: [never]}\n"
    answer = await api.send("POST", "manifests/validate", text.encode(), **{"Content-Type": YAML["Content-Type"]})
    findings = accepted(answer)
    assert set(findings) == {"errors", "warnings"}
    assert [set(finding) for kind in findings.values() for finding in kind] == [
        {"message", "line", "column", "code"}
    ] * 2
    assert findings["errors"][0]["line"] == 3


@pytest.mark.parametrize("path", ["organizations/{}/applications", "applications/{}/revisions"])
async def test_an_unknown_id_is_404(api: Api, path: str) -> None:
    for unknown in (UNKNOWN, "5" * 23, "G" * 24, "A" * 24, "%00" * 3, "x" * 600, "💥"):
        refused(await api.get(path.format(unknown)), 404)


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
