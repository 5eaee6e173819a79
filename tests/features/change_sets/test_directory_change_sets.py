"""Change sets that apply a directory: shown whole, approved, applied exactly so in one act, or refused as stale."""

import asyncio
from typing import Any

import pytest

from tests.support.service import GREETER, Api, Person, accepted, fresh_name, person, refused

SECRET = "hunter2-and-more"


async def named(api: Api, kind: str, name: str) -> Any:
    """Return an object of the organization by its name, or None."""
    found = accepted(await api.get(f"organizations/{api.organization}/{kind}"))
    return next((each for each in found if each["name"] == name), None)


async def someone(api: Api, text: str) -> Person:
    """Return a user with a role of this text."""
    name = fresh_name("role")
    accepted(await api.post(f"organizations/{api.organization}/roles", {"name": name, "permissions": text}))
    return await person(api, name)


def directory(name: str) -> dict[str, str]:
    return {
        f"roles/{name}.yaml": "- Read: [/*]\n",
        f"environments/{name}.yaml": "markers: [blue]\n",
        f"applications/{name}/manifest.yaml": GREETER,
        f"applications/{name}/revisions/stable/revision.yaml": f"environment: {name}\n",
    }


async def kept(api: Api, files: dict[str, str], **more: Any) -> Any:
    body = {"act": "apply", "files": files, **more}
    return accepted(await api.post(f"organizations/{api.organization}/change-sets", body))


def lines(shown: Any) -> list[str]:
    return [f"{each['sign']} {each['what']}" for each in shown["directory"]["objects"] if each["sign"] != "="]


async def test_a_directory_is_shown_whole_and_changes_nothing_before_it_is_applied(api: Api) -> None:
    name = fresh_name("whole")
    shown = await kept(api, directory(name), comment="OPS-18")
    assert (shown["act"], shown["status"], shown["comment"], shown["instances"]) == ("apply", "Ready", "OPS-18", 0)
    assert lines(shown) == [
        f"+ role {name}",
        f"+ environment {name}",
        f"+ markers of environment {name}",
        f"+ application {name}",
        f"+ manifest of application {name}",
        f"+ revision {name}/stable",
    ]
    objects = {each["what"]: each for each in shown["directory"]["objects"]}
    assert objects[f"manifest of application {name}"]["toVersion"] == 2
    assert objects[f"role {name}"]["difference"] == "@@ -0,0 +1 @@\n+- Read: [/*]\n"
    assert objects["environment default"] == {
        **objects["environment default"],
        "sign": "=",
        "detail": "isn't in the directory",
    }
    assert {each["permission"] for each in shown["directory"]["permissions"]} == {
        *("ManageRoles", "CreateEnvironment", "EditEnvironment", "CreateApplication", "EditApplication"),
    }
    assert (shown["directory"]["warnings"], shown["directory"]["differences"]) == ([], None)
    for kind in ("roles", "environments", "applications"):
        assert await named(api, kind, name) is None

    key = {"idempotency-key": fresh_name("apply")}
    applied = accepted(await api.client.post(f"change-sets/{shown['id']}/apply", headers=key))
    assert (applied["status"], applied["directory"]["differences"]) == ("Succeeded", [])
    assert accepted(await api.client.post(f"change-sets/{shown['id']}/apply", headers=key)) == applied
    environment = await named(api, "environments", name)
    assert accepted(await api.get(f"environments/{environment['id']}/markers")) == {"markers": [{"name": "blue"}]}
    application = await named(api, "applications", name)
    assert accepted(await api.get(f"applications/{application['id']}"))["version"] == 2
    assert (await api.get(f"applications/{application['id']}/manifest")).text == GREETER
    refused(await api.post(f"change-sets/{shown['id']}/apply"), 409, "ChangeSetEnded")
    body = {"act": "apply", "files": directory(name)}
    refused(await api.post(f"organizations/{api.organization}/change-sets", body), 400, "NothingChosen")
    # A trial leaves no manifest behind that a later version of the same number would be taken for.
    launched = await api.settled(await api.launch(application["id"]))
    assert launched["status"] == "Running"


async def test_a_service_of_the_same_name_is_another_one(api: Api) -> None:
    name = fresh_name("pool")
    body = {"name": name, "typeId": "builtin:cobalt_secure_store"}
    services = f"organizations/{api.organization}/services"
    first = accepted(await api.post(services, body))["id"]
    environment = fresh_name("offering")
    shown = await kept(api, {f"environments/{environment}.yaml": f"services: [{name}]\n"})
    accepted(await api.delete(f"services/{first}"))
    accepted(await api.post(services, body))
    told = refused(await api.post(f"change-sets/{shown['id']}/apply"), 409, "StaleChangeSet")
    assert f"Since then, the services of environment {environment} changed." in told
    shown = await kept(api, {f"environments/{environment}.yaml": f"services: [{name}]\n"})
    accepted(await api.post(f"change-sets/{shown['id']}/apply"))


@pytest.mark.parametrize("has_key", [False, True])
async def test_the_version_of_a_trial_is_not_taken_for_the_one_that_comes_after_it(api: Api, *, has_key: bool) -> None:
    name = fresh_name("tried")
    manifest = "launch: {steps: [], return: {said: {value: '%s'}}}\ndestroy: {steps: []}\n"
    application = await api.application(manifest % "first")
    accepted(await api.put(f"applications/{application}", {"name": name}))
    path = f"applications/{name}"
    tried = {
        f"{path}/manifest.yaml": manifest % "tried",
        f"{path}/revisions/stable/revision.yaml": "{}\n",
    }
    body = {"act": "apply", "files": tried}
    # With a key, the trial is a savepoint in the transaction that keeps the answer.
    headers = {"Idempotency-Key": fresh_name("trial")} if has_key else {}
    path = f"organizations/{api.organization}/change-sets"
    shown, again = [accepted(await api.client.post(path, json=body, headers=headers)) for _ in range(2)]
    assert (shown["id"] == again["id"]) is has_key
    assert [each["toVersion"] for each in shown["directory"]["objects"] if each["toVersion"]] == [3]
    accepted(await api.put_yaml(f"applications/{application}/manifest", manifest % "uploaded"))
    launched = await api.settled(await api.launch(application))
    assert launched["returnValues"]["said"] == "uploaded"


async def test_a_stale_directory_is_refused_and_names_what_changed(api: Api) -> None:
    name = fresh_name("stale")
    accepted(await api.post(f"change-sets/{(await kept(api, directory(name)))['id']}/apply"))
    files = {**directory(name), f"environments/{name}.yaml": "markers: [green]\n"}
    shown = await kept(api, files)
    assert lines(shown) == [f"~ markers of environment {name}"]
    environment = (await named(api, "environments", name))["id"]
    accepted(await api.put(f"environments/{environment}/markers", {"markers": [{"name": "red"}]}))
    told = refused(await api.post(f"change-sets/{shown['id']}/apply"), 409, "StaleChangeSet")
    assert f"Since then, the markers of environment {name} changed." in told
    assert accepted(await api.get(f"environments/{environment}/markers")) == {"markers": [{"name": "red"}]}
    accepted(await api.put(f"environments/{environment}/markers", {"markers": [{"name": "green"}]}))
    told = refused(await api.post(f"change-sets/{shown['id']}/apply"), 409, "StaleChangeSet")
    assert f"The markers of environment {name} would no longer change." in told
    role = (await named(api, "roles", name))["id"]
    accepted(await api.put(f"environments/{environment}/markers", {"markers": [{"name": "blue"}]}))
    accepted(await api.put(f"roles/{role}", {"name": name, "permissions": ""}))
    told = refused(await api.post(f"change-sets/{shown['id']}/apply"), 409, "StaleChangeSet")
    assert f"Since then, the role {name} changed, and would change too." in told
    assert accepted(await api.get(f"change-sets/{shown['id']}"))["status"] == "Ready"


async def test_what_would_be_refused_later_is_refused_at_once_and_leaves_nothing(api: Api) -> None:
    name = fresh_name("half")
    path = f"organizations/{api.organization}/change-sets"
    bad = {**directory(name), f"applications/{name}/revisions/bad/revision.yaml": "parameters: {input.none: 1}\n"}
    wrong = {**directory(name), f"applications/{name}/manifest.yaml": "launch: 1\n"}
    assert "line 1" in refused(await api.post(path, {"act": "apply", "files": wrong}), 400, "InvalidManifest")
    assert (await api.post(path, {"act": "apply", "files": bad})).status_code == 400
    loaded = {f"applications/{name}/source.yaml": "url: https://example.org/manifest.yaml\n"}
    refused(await api.post(path, {"act": "apply", "files": loaded}), 400, "InvalidChangeSet")
    refused(await api.post(path, {"act": "apply", "files": {"x.yaml": ""}}), 400, "InvalidDirectory")
    refused(await api.post(path, {"act": "apply", "files": {"/".join("a" * 40): ""}}), 400, "InvalidDirectory")
    refused(await api.post(path, {"act": "apply"}), 400, "InvalidAct")
    refused(await api.post(path, {"act": "apply", "files": loaded, "ids": ["a" * 24]}), 400, "InvalidAct")
    refused(await api.post(path, {"act": "destroy", "files": loaded}), 400, "InvalidAct")
    for kind in ("roles", "environments", "applications"):
        assert await named(api, kind, name) is None


async def test_the_strictest_policy_of_what_a_directory_touches_asks_for_approval(api: Api) -> None:
    first, second = fresh_name("first"), fresh_name("second")
    files = {f"environments/{name}.yaml": "markers: [blue]\n" for name in (first, second)}
    accepted(await api.post(f"change-sets/{(await kept(api, files))['id']}/apply"))
    strict = (await named(api, "environments", second))["id"]
    accepted(await api.put(f"environments/{strict}/changePolicy", {"approvals": 1}))
    untouched = await kept(api, {**files, f"environments/{first}.yaml": "markers: [red]\n"})
    assert (untouched["needed"], untouched["status"]) == (0, "Ready")
    shown = await kept(api, dict.fromkeys(files, "markers: [red]\n"))
    assert (shown["needed"], shown["status"]) == (1, "Pending")
    # What a role allows counts in each environment.
    role = await kept(api, {f"roles/{first}.yaml": "- Read: [/*]\n"})
    assert role["needed"] >= 1
    refused(await api.post(f"change-sets/{shown['id']}/apply"), 409, "ChangeSetPending")
    refused(await api.post(f"change-sets/{shown['id']}/approve"), 403, "ApprovalByRequester")
    reader = await someone(api, "- Read: [/*]\n")
    refused(await reader.post(f"change-sets/{shown['id']}/approve"), 403)
    partly = await someone(api, f"- ApproveInstanceWorkflow: [/environments/{'0' * 24}]\n")
    refused(await partly.post(f"change-sets/{shown['id']}/approve"), 403)
    approver = await someone(api, "- Read: [/*]\n- ApproveInstanceWorkflow: [/*]\n")
    assert accepted(await approver.post(f"change-sets/{shown['id']}/approve"))["status"] == "Ready"
    refused(await approver.post(f"change-sets/{shown['id']}/apply"), 403)
    # Who can't read what it touches hears that, and not that it is stale.
    blind = await someone(api, "- EditEnvironment: [/environments/*]\n")
    refused(await blind.post(f"change-sets/{shown['id']}/apply"), 403)
    accepted(await api.post(f"change-sets/{shown['id']}/apply"))
    assert accepted(await api.get(f"environments/{strict}/markers")) == {"markers": [{"name": "red"}]}
    accepted(await api.put(f"environments/{strict}/changePolicy", {"approvals": 0}))


async def test_a_change_at_the_same_time_is_either_before_it_or_after_it(api: Api) -> None:
    name = fresh_name("raced")
    accepted(await api.post(f"change-sets/{(await kept(api, directory(name)))['id']}/apply"))
    environment = (await named(api, "environments", name))["id"]
    for number in range(5):
        files = {**directory(name), f"environments/{name}.yaml": f"markers: [ours-{number}]\n"}
        shown = await kept(api, files)
        applied, edited = await asyncio.gather(
            api.post(f"change-sets/{shown['id']}/apply"),
            api.put(f"environments/{environment}/markers", {"markers": [{"name": f"theirs-{number}"}]}),
        )
        accepted(edited)
        # Applied first, it is overwritten; applied second, it is stale. It never overwrites what it didn't show.
        assert applied.status_code in (200, 409), applied.text
        markers = accepted(await api.get(f"environments/{environment}/markers"))["markers"]
        assert markers == [{"name": f"theirs-{number}"}]


async def test_deletions_are_shown_and_are_stale_once_their_objects_change(api: Api) -> None:
    name = fresh_name("gone")
    accepted(await api.post(f"change-sets/{(await kept(api, directory(name)))['id']}/apply"))
    files = {path: text for path, text in directory(name).items() if "revisions" not in path}
    files[f"applications/{name}/revisions/other/revision.yaml"] = "{}\n"
    assert "- " not in "".join(lines(await kept(api, files)))
    shown = await kept(api, {f"roles/{fresh_name('kept')}.yaml": ""}, prune=True)
    assert f"- role {name}" in lines(shown)
    role = (await named(api, "roles", name))["id"]
    accepted(await api.put(f"roles/{role}", {"name": name, "permissions": "- Read: [/organizations/*]\n"}))
    told = refused(await api.post(f"change-sets/{shown['id']}/apply"), 409, "StaleChangeSet")
    assert f"Since then, the role {name} changed." in told


async def test_secrets_are_masked_and_others_see_only_what_they_may_read(api: Api) -> None:
    name = fresh_name("masked")
    files = {
        f"environments/{name}.yaml": f"properties:\n- {{name: password, type: string, value: {SECRET}}}\n",
        f"applications/{name}/manifest.yaml": GREETER,
    }
    shown = await kept(api, files)
    assert SECRET not in str(shown)
    assert "********" in str(shown)
    stranger = await someone(api, "- Read: [/applications/*]\n")
    seen = accepted(await stranger.get(f"change-sets/{shown['id']}"))["directory"]
    assert {each["kind"] for each in seen["objects"]} <= {"application", "revision"}
    assert seen["hidden"] >= 2
    async with api.database.transaction() as connection:
        rows = await (await connection.execute("SELECT change_sets::text FROM change_sets")).fetchall()
    assert SECRET not in str(rows)
    accepted(await api.post(f"change-sets/{shown['id']}/apply"))


async def test_live_instances_of_what_changes_are_listed(api: Api) -> None:
    name = fresh_name("live")
    accepted(await api.post(f"change-sets/{(await kept(api, directory(name)))['id']}/apply"))
    application = (await named(api, "applications", name))["id"]
    instance = await api.launch(application)
    await api.settled(instance)
    path = f"applications/{name}"
    shown = await kept(api, {f"{path}/manifest.yaml": GREETER.replace("Hello", "Good day")})
    [found] = [each for each in shown["directory"]["objects"] if each["kind"] == "instance"]
    assert (found["sign"], found["id"], found["detail"]) == ("=", instance, "stays at version 2")
    rules = {f"{path}/rules.yaml": "concurrency: [{limit: 3}]\n"}
    shown = await kept(api, rules)
    [found] = [each for each in shown["directory"]["objects"] if each["kind"] == "instance"]
    assert (found["sign"], found["detail"]) == ("~", "the rules of its application apply immediately")


async def test_each_change_of_a_directory_has_its_entry_in_the_activity_log(api: Api) -> None:
    name = fresh_name("noted")
    shown = await kept(api, {f"roles/{name}.yaml": "- Read: [/*]\n"})
    accepted(await api.post(f"change-sets/{shown['id']}/apply"))
    entries = accepted(await api.get(f"organizations/{api.organization}/audit?limit=3&sort=-at"))
    # The trial has left none.
    assert [each["operation"] for each in entries] == ["apply_change_set", "create_role", "create_change_set"]
    assert entries[0]["after"] == {"status": "Succeeded", "changes": 1, "differences": []}


async def test_plans_of_one_organization_hold_two_connections_at_most(api: Api) -> None:
    directories = [{f"roles/{fresh_name('many')}.yaml": "- Read: [/*]\n" for _ in range(30)} for _ in range(5)]
    plans = asyncio.gather(*(kept(api, files) for files in directories))
    most = 0
    async with api.database.connection() as connection:
        while not plans.done():
            row = await (await connection.execute(_PLANNING)).fetchone()
            assert row is not None
            most = max(most, row[0])
            await asyncio.sleep(0.005)
    assert {each["status"] for each in await plans} == {"Ready"}
    assert 1 <= most <= 2


# Sessions that hold a transaction in which roles were written.
_PLANNING = """
SELECT count(DISTINCT pid) FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
WHERE datname = current_database() AND relation = 'roles'::regclass AND mode = 'RowExclusiveLock'
"""
