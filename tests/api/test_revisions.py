"""Revisions through the API, and what they mean for a launch (reference §4, launch; conformance.md)."""

import asyncio
from typing import Any

import pytest

from tests.support.service import UNKNOWN, Api, accepted, fresh_name, refused

SIZED = """
application:
  interfaces:
    input: {{size: bind(workflow#input.size), name: bind(workflow#input.name)}}
    result: {{"*": bind(workflow#result.*)}}
  components:
    workflow:
      type: workflow.Instance
      interfaces:
        input: {{size: configuration(int), name: configuration(string)}}
        result: {{size: publish-signal(int), name: publish-signal(string), version: publish-signal(int)}}
      configuration:
        configuration.workflows:
          launch:
            steps: []
            return:
              size: {{value: "{{$.size}}"}}
              name: {{value: "{{$.name}}"}}
              version: {{value: {version}}}
"""


async def sized(api: Api) -> str:
    """Make an application with the versions 2 and 3, which need a size and a name."""
    application = await api.application(SIZED.format(version=2))
    newer = SIZED.format(version=3)
    assert accepted(await api.put_yaml(f"applications/{application}/manifest", newer)) == {"version": 3}
    return application


async def revise(api: Api, application: str, **body: Any) -> str:
    created = accepted(await api.post(f"applications/{application}/revisions", {"name": "stable", **body}))
    assert list(created) == ["id"]
    return str(created["id"])


async def shown(api: Api, revision: str) -> dict[str, Any]:
    document: dict[str, Any] = accepted(await api.get(f"revisions/{revision}"))
    assert document.pop("id") == revision
    assert isinstance(document.pop("createdAt"), int)
    return document


async def launched(api: Api, application: str, **body: Any) -> dict[str, Any]:
    document: dict[str, Any] = await api.settled(await api.launch(application, **body))
    assert document["status"] == "Running", document["errorMessage"]
    return document


async def test_a_revision_holds_what_it_was_made_of(api: Api) -> None:
    application = await sized(api)
    inner = await revise(api, await api.application(), version=1)
    submodules = {"db": {"revisionId": inner, "manifestVersion": 2, "parameters": {"a.b": [1]}, "submodules": {}}}
    parts = {"version": 2, "parameters": {"input.size": 2}, "environmentId": api.environment, "submodules": submodules}
    revision = await revise(api, application, **parts)
    assert await shown(api, revision) == {"name": "stable", "applicationId": application, **parts}
    listed = accepted(await api.get(f"applications/{application}/revisions"))
    assert listed == [{"id": revision, "name": "stable"}]


async def test_a_submodule_takes_only_a_revision_that_the_caller_may_read(api: Api) -> None:
    application, other = await api.application(), await api.application()
    hidden = await revise(api, other, version=1)
    outsider, _, _ = await api.outsider()
    [organization] = [row["id"] for row in accepted(await outsider.get("organizations"))]
    foreign = accepted(await outsider.post(f"organizations/{organization}/applications", {"name": "foreign"}))["id"]
    body = {"name": "theirs", "version": 1}
    foreign_revision = accepted(await outsider.post(f"applications/{foreign}/revisions", body))["id"]
    member = await api.member(f"Read: [/applications/{application}]", f"EditApplication: [/applications/{application}]")
    path = f"applications/{application}/revisions"
    own = accepted(await member.post(path, {"name": "own", "version": 1}))["id"]

    answers = set()
    for revision in (hidden, foreign_revision, UNKNOWN):
        submodules = {"a": {"submodules": {"b": {"revisionId": revision}}}}
        for answer in (
            await member.post(path, {"name": fresh_name("revision"), "version": 1, "submodules": submodules}),
            await member.put(f"revisions/{own}", {"submodules": submodules}),
        ):
            answers.add(refused(answer, 400, "UnknownRevision").replace(revision, "ID"))
    assert len(answers) == 1, "an unknown revision and a hidden one must not differ"
    accepted(await member.put(f"revisions/{own}", {"submodules": {"a": {"revisionId": own}}}))
    accepted(await api.put(f"revisions/{own}", {"submodules": {"a": {"revisionId": hidden}}}))
    refused(await api.put(f"revisions/{own}", {"submodules": {"a": {"revisionId": foreign_revision}}}), 400)


async def test_a_revision_of_a_version_alone_leaves_the_rest_open(api: Api) -> None:
    application = await sized(api)
    revision = await revise(api, application, version=3)
    assert await shown(api, revision) == {
        "name": "stable",
        "applicationId": application,
        "version": 3,
        "parameters": {},
        "environmentId": None,
        "submodules": {},
    }


async def test_a_revision_of_an_instance_launches_the_same_again(api: Api) -> None:
    application = await sized(api)
    environment = accepted(await api.post(f"environments/{api.environment}/clone"))["id"]
    parameters = {"input.size": "7", "input.name": "seven"}
    first = await launched(api, application, version=2, parameters=parameters, environmentId=environment)
    revision = await revise(api, application, instanceId=first["id"])
    again = await launched(api, application, revisionId=revision)
    for part in ("version", "parameters", "environmentId", "returnValues"):
        assert again[part] == first[part]
    assert again["version"] == 2
    rows = accepted(await api.get(f"revisions/{revision}/instances"))
    assert [(row["id"], row["revision"]) for row in rows] == [(again["id"], revision)]


async def test_a_revision_of_an_instance_takes_over_the_submodules_of_its_revision(api: Api) -> None:
    application = await api.application()
    submodules = {"db": {"manifestVersion": 1}}
    revision = await revise(api, application, version=1, submodules=submodules)
    async with api.database.transaction() as connection:  # a launch would look for the submodule
        instance = await api.launch(application)
        await connection.execute("UPDATE instances SET revision_id = %s WHERE id = %s", [revision, instance])
    copy = await revise(api, application, name="copy", instanceId=instance)
    assert (await shown(api, copy))["submodules"] == submodules


async def test_given_settings_win_over_the_revision_and_the_rest_still_applies(api: Api) -> None:
    application = await sized(api)
    parameters = {"input.size": 2, "input.name": "two"}
    environment = accepted(await api.post(f"environments/{api.environment}/clone"))["id"]
    revision = await revise(api, application, version=2, parameters=parameters, environmentId=environment)
    newer = await launched(api, application, revisionId=revision, version=3)
    assert (newer["version"], newer["environmentId"]) == (3, environment)
    assert newer["returnValues"] == {"result.size": 2, "result.name": "two", "result.version": 3}
    body = {"revisionId": revision, "parameters": {"input.name": "other"}, "environmentId": api.environment}
    other = await launched(api, application, **body)
    assert (other["version"], other["environmentId"]) == (2, api.environment)
    assert other["returnValues"] == {"result.size": 2, "result.name": "other", "result.version": 2}
    assert other["parameters"]["input.size"] in {2, "2"}


async def test_the_obsolete_launch_form_takes_a_revision_too(api: Api) -> None:
    application = await sized(api)
    revision = await revise(api, application, version=2, parameters={"input.size": 2})
    found = await launched(api, application, revisionId=revision, **{"input.name": "beside"})
    assert found["returnValues"] == {"result.size": 2, "result.name": "beside", "result.version": 2}


async def test_what_neither_revision_nor_launch_gives_is_missing(api: Api) -> None:
    application = await sized(api)
    revision = await revise(api, application, version=2, parameters={"input.size": 2})
    answer = await api.post(f"applications/{application}/launch", {"revisionId": revision})
    assert "input.name" in refused(answer, 400, "InvalidParameters")


async def test_a_launch_of_a_revision_that_is_not_the_applications_is_400(api: Api) -> None:
    application = await sized(api)
    outsider, organization, _ = await api.outsider()
    foreign = accepted(await outsider.post(f"organizations/{organization}/applications", {"name": "a"}))["id"]
    body = {"name": "r", "version": 1}
    foreign_revision = accepted(await outsider.post(f"applications/{foreign}/revisions", body))["id"]
    other_revision = await revise(api, await api.application(), version=1)
    for revision in (UNKNOWN, "not an id", "", foreign_revision, other_revision):
        answer = await api.post(f"applications/{application}/launch", {"revisionId": revision})
        refused(answer, 400, "UnknownRevision")
    refused(await api.post(f"applications/{application}/launch", {"revisionId": 5}), 400)


async def test_the_environment_of_a_revision_needs_permission_like_any_other(api: Api) -> None:
    application = await api.application()
    environment = accepted(await api.post(f"environments/{api.environment}/clone"))["id"]
    revision = await revise(api, application, version=1, environmentId=environment)
    launcher = await api.member(
        f"CreateInstance: [/applications/*, /environments/{api.environment}]", "Read: [/environments/*]"
    )
    path = f"applications/{application}/launch"
    refused(await launcher.post(path, {"revisionId": revision}), 403, "NotAllowed")
    accepted(await launcher.post(path, {"revisionId": revision, "environmentId": api.environment}))


async def test_the_default_environment_stands_in_for_one_that_was_deleted(api: Api) -> None:
    application = await api.application()
    environment = accepted(await api.post(f"environments/{api.environment}/clone"))["id"]
    revision = await revise(api, application, version=1, environmentId=environment)
    accepted(await api.delete(f"environments/{environment}"))
    assert (await shown(api, revision))["environmentId"] is None
    assert (await launched(api, application, revisionId=revision))["environmentId"] == api.environment


async def test_a_change_touches_only_what_it_names(api: Api) -> None:
    application = await sized(api)
    parts = {"version": 2, "parameters": {"input.size": 2}, "environmentId": api.environment, "submodules": {"a": {}}}
    revision = await revise(api, application, **parts)
    expected = {"name": "stable", "applicationId": application, **parts}
    changes: list[dict[str, Any]] = [
        {"name": "renamed"},
        {"version": 3},
        {"parameters": {"input.name": "n"}},
        {"environmentId": None},
        {"submodules": {}},
        {},
    ]
    for change in changes:
        assert accepted(await api.put(f"revisions/{revision}", change)) == {}
        expected |= change
        assert await shown(api, revision) == expected


async def test_a_change_can_take_the_state_of_an_instance(api: Api) -> None:
    application = await sized(api)
    revision = await revise(api, application, version=2)
    instance = await launched(api, application, parameters={"input.size": 1, "input.name": "x"})
    accepted(await api.put(f"revisions/{revision}", {"instanceId": instance["id"]}))
    found = await shown(api, revision)
    assert (found["name"], found["version"], found["environmentId"]) == ("stable", 3, api.environment)
    assert set(found["parameters"]) == {"input.size", "input.name"}


async def test_a_deleted_revision_is_gone_and_its_instances_stay(api: Api) -> None:
    application = await api.application()
    revision = await revise(api, application, version=1)
    instance = await launched(api, application, revisionId=revision)
    assert accepted(await api.delete(f"revisions/{revision}")) == {}
    refused(await api.get(f"revisions/{revision}"), 404, "NotFound")
    refused(await api.get(f"revisions/{revision}/instances"), 404, "NotFound")
    assert (await api.document(instance["id"]))["status"] == "Running"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"version": 2}, "WrongField"),
        ({"name": " ", "version": 2}, "InvalidName"),
        ({"name": 1, "version": 2}, "WrongField"),
        ({"name": "n"}, "NoRevisionContent"),
        ({"name": "n", "version": 9}, "InvalidManifestVersion"),
        ({"name": "n", "version": 0}, "InvalidManifestVersion"),
        ({"name": "n", "version": -1}, "InvalidManifestVersion"),
        ({"name": "n", "version": 2**40}, "InvalidManifestVersion"),
        ({"name": "n", "version": "2"}, "WrongField"),
        ({"name": "n", "version": True}, "WrongField"),
        ({"name": "n", "version": 2, "parameters": []}, "WrongField"),
        ({"name": "n", "version": 2, "parameters": {"no.such": 1}}, "InvalidParameters"),
        ({"name": "n", "version": 2, "parameters": {"input.size": "x"}}, "InvalidParameters"),
        ({"name": "n", "version": 2, "environmentId": UNKNOWN}, "UnknownId"),
        ({"name": "n", "version": 2, "environmentId": "dev"}, "UnknownId"),
        ({"name": "n", "version": 2, "environmentId": 5}, "WrongField"),
        ({"name": "n", "version": 2, "submodules": {"db": 1}}, "InvalidField"),
        ({"name": "n", "version": 2, "submodules": {"db": {"version": 1}}}, "InvalidField"),
        ({"name": "n", "version": 2, "instanceId": UNKNOWN}, "ConflictingFields"),
        ({"name": "n", "environmentId": None, "instanceId": UNKNOWN}, "ConflictingFields"),
        ({"name": "n", "instanceId": UNKNOWN}, "UnknownId"),
        ({"name": "n", "instanceId": ""}, "UnknownId"),
    ],
)
async def test_a_revision_of_what_is_not_there_is_400(api: Api, body: dict[str, Any], code: str) -> None:
    application = await sized(api)
    refused(await api.post(f"applications/{application}/revisions", body), 400, code)
    assert accepted(await api.get(f"applications/{application}/revisions")) == []


async def test_a_revision_cannot_be_of_another_applications_instance(api: Api) -> None:
    instance = await api.launch(await api.application())
    other = await api.application()
    answer = await api.post(f"applications/{other}/revisions", {"name": "n", "instanceId": instance})
    refused(answer, 400, "ForeignInstance")


async def test_names_are_free_within_the_application(api: Api) -> None:
    application, other = await api.application(), await api.application()
    await revise(api, application, version=1)
    await revise(api, other, version=1)
    second = await revise(api, application, name="second", version=1)
    taken = {"name": "stable", "version": 1}
    refused(await api.post(f"applications/{application}/revisions", taken), 400, "NameTaken")
    refused(await api.put(f"revisions/{second}", {"name": "stable"}), 400, "NameTaken")
    answers = await asyncio.gather(
        *(api.post(f"applications/{application}/revisions", {"name": "third", "version": 1}) for _ in range(5))
    )
    assert sorted(answer.status_code for answer in answers) == [200, 400, 400, 400, 400]


async def test_nobody_reads_or_changes_what_they_may_not(api: Api) -> None:
    application = await api.application()
    revision = await revise(api, application, version=1)
    outsider, _, _ = await api.outsider()
    reader = await api.member("Read: [/*]")
    path = f"applications/{application}/revisions"
    assert (await reader.get(f"revisions/{revision}")).status_code == 200
    for caller in (reader, outsider):
        refused(await caller.post(path, {"name": "n", "version": 1}), 403, "NotAllowed")
        refused(await caller.put(f"revisions/{revision}", {"name": "n"}), 403, "NotAllowed")
        refused(await caller.delete(f"revisions/{revision}"), 403, "NotAllowed")
    refused(await outsider.get(f"revisions/{revision}"), 403, "NotAllowed")
    refused(await outsider.get(path), 403, "NotAllowed")
    refused(await api.get(f"revisions/{UNKNOWN}"), 404, "NotFound")
    refused(await api.put(f"revisions/{UNKNOWN}", {"name": "n"}), 404, "NotFound")
    refused(await api.put(f"revisions/{UNKNOWN}", {"name": 5}), 400, "WrongField")
    refused(await api.delete(f"revisions/{UNKNOWN}"), 404, "NotFound")
    refused(await api.post(f"applications/{UNKNOWN}/revisions", {"name": "n", "version": 1}), 404, "NotFound")


async def test_a_revision_of_an_instance_needs_read_on_it(api: Api) -> None:
    application = await api.application()
    instance = await api.launch(application)
    editor = await api.member(f"EditApplication: [/applications/{application}]")
    path = f"applications/{application}/revisions"
    refused(await editor.post(path, {"name": "n", "instanceId": instance}), 403, "NotAllowed")
    accepted(await editor.post(path, {"name": "n", "version": 1}))


async def versions(api: Api) -> str:
    """Make an application with the versions 2 and 3, which need no parameters."""
    application = await api.application("launch: {steps: []}")
    accepted(await api.put_yaml(f"applications/{application}/manifest", "launch: {steps: []}\ngo: {steps: []}"))
    return application


async def listed(api: Api, path: str) -> list[tuple[str, str]]:
    return [(row["id"], row["revision"]) for row in accepted(await api.get(f"{path}/instances"))]


async def test_a_launch_without_a_revision_is_of_the_unnamed_one_of_its_version(api: Api) -> None:
    application = await versions(api)
    first = await launched(api, application, version=2)
    second = await launched(api, application, version=2)
    newer = await launched(api, application)
    revisions = dict(await listed(api, f"applications/{application}"))
    unnamed, other = revisions[first["id"]], revisions[newer["id"]]
    assert revisions[second["id"]] == unnamed != other
    assert set(await listed(api, f"revisions/{unnamed}")) == {(first["id"], unnamed), (second["id"], unnamed)}
    assert await listed(api, f"revisions/{other}") == [(newer["id"], other)]
    document = accepted(await api.get(f"revisions/{unnamed}"))
    assert document.pop("createdAt")
    assert document == {
        "id": unnamed,
        "name": "",
        "applicationId": application,
        "version": 2,
        "parameters": {},
        "environmentId": None,
        "submodules": {},
    }
    assert accepted(await api.get(f"applications/{application}/revisions")) == [], "lists have the named ones only"


async def test_an_unnamed_revision_is_launched_as_its_version(api: Api) -> None:
    application = await versions(api)
    first = await launched(api, application, version=2)
    [(_, unnamed)] = await listed(api, f"applications/{application}")
    again = await launched(api, application, revisionId=unnamed)
    assert (again["version"], again["parameters"]) == (2, first["parameters"])
    assert len(await listed(api, f"revisions/{unnamed}")) == 2
    page = await api.get(f"revisions/{unnamed}/instances?limit=1")
    assert [row["id"] for row in accepted(page)] == [min(first["id"], again["id"])]
    assert 'rel="next"' in page.headers["link"]


async def test_a_reconfigured_instance_is_of_the_revision_of_its_new_version(api: Api) -> None:
    application = await versions(api)
    instance = (await launched(api, application, version=2))["id"]
    [(_, before)] = await listed(api, f"applications/{application}")
    accepted(await api.put(f"instances/{instance}/configuration", {"manifestVersion": 3}))
    await api.settled(instance)
    [(_, after)] = await listed(api, f"applications/{application}")
    assert before != after
    assert accepted(await api.get(f"revisions/{after}"))["version"] == 3
    assert await listed(api, f"revisions/{before}") == []


async def test_an_unnamed_revision_cannot_be_changed_or_deleted(api: Api) -> None:
    application = await versions(api)
    await launched(api, application)
    [(_, unnamed)] = await listed(api, f"applications/{application}")
    refused(await api.put(f"revisions/{unnamed}", {"name": "mine"}), 400, "UnnamedRevision")
    refused(await api.delete(f"revisions/{unnamed}"), 400, "UnnamedRevision")
    stranger, _, _ = await api.outsider()
    for answer in (
        await stranger.get(f"revisions/{unnamed}"),
        await stranger.get(f"revisions/{unnamed}/instances"),
        await stranger.delete(f"revisions/{unnamed}"),
    ):
        refused(answer, 403)
