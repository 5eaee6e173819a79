"""The address and name of a person who left are erased on the server's machine, beside the running server."""

import asyncio
import json
import re
from typing import Any

import pytest
from click.testing import CliRunner, Result

from launchbay.app.features import FEATURES
from launchbay.cli.main import main
from launchbay.store import users
from tests.support.eventually import eventually
from tests.support.service import Api, Person, accepted, fresh_email, fresh_name, person

ASKING = """
launch:
  steps: [sign-off: {action: approval, parameters: {text: "Deploy?"}}]
destroy: {steps: []}
"""
NAME = 'Kim "the Quick" Lee'


async def erase(api: Api, email: str, *options: str) -> Result:
    command = ["erase-person", email, "--database-url", api.database.url, *options]
    return await asyncio.to_thread(CliRunner().invoke, main, command)


async def approver(api: Api) -> Person:
    role = fresh_name("approvers")
    text = "- ApproveInstanceWorkflow: [/*]\n- Read: [/*]\n"
    accepted(await api.post(f"organizations/{api.organization}/roles", {"name": role, "permissions": text}))
    return await person(api, role)


async def refused_launch(api: Api, by: Person) -> str:
    """Let somebody reject the approval of a launch, and return the instance."""
    instance = await api.launch(await api.application(ASKING))
    asked = await eventually(lambda: api.read(f"instances/{instance}/approvals"))
    accepted(await by.post(f"approvals/{asked[0]['id']}/reject", {"comment": "No."}))
    assert by.email in (await api.settled(instance))["errorMessage"]
    return instance


async def entries(api: Api, **options: Any) -> list[Any]:
    query = "&".join(f"{name}={value}" for name, value in options.items())
    found: list[Any] = accepted(await api.get(f"organizations/{api.organization}/audit?{query}"))
    return found


async def remove(api: Api, user_id: str) -> None:
    accepted(await api.delete(f"organizations/{api.organization}/users/{user_id}"))


async def everything_about(api: Api, instance: str, at: int) -> str:
    """Return what the API tells of an instance: now, at a time in ms, and in the audit log."""
    document = await api.document(instance)
    job = document["workflowHistory"][0]["id"]
    paths = f"instances/{instance}/approvals", f"instances/{instance}?at={at}", f"jobs/{job}"
    return json.dumps([document, *[accepted(await api.get(path)) for path in paths], await entries(api)])


@pytest.mark.slow  # launches twice, and runs the command three times
async def test_a_pseudonym_takes_the_place_of_the_address_and_the_id_of_the_account_stays(api: Api) -> None:
    kim, ann = await approver(api), await approver(api)
    instance, other = await refused_launch(api, kim), await refused_launch(api, ann)
    similar = f"jo.{kim.email}"
    made = accepted(
        await api.post(f"organizations/{api.organization}/users", {"email": similar, "name": NAME, "roles": []})
    )
    done = {entry["id"] for entry in await entries(api, actor=kim.id)}
    await remove(api, kim.id)
    failed_at = (await api.document(instance))["lastFailure"]["time"] + 1
    before = await everything_about(api, instance, failed_at)

    counted = await erase(api, kim.email.upper())
    assert counted.exit_code == 0, counted.output
    assert "1 answers to approvals" in counted.stdout
    assert "1 jobs" in counted.stdout
    assert "Nothing is changed." in counted.stdout
    assert await everything_about(api, instance, failed_at) == before

    erased = await erase(api, kim.email, "--yes")
    assert erased.exit_code == 0, erased.output
    pseudonym = f"erased-{kim.id[-8:]}"
    assert erased.stdout.endswith(f"Replaced the address and name by {pseudonym}.\n")
    after = await everything_about(api, instance, failed_at)
    assert kim.email not in after.replace(similar, "")
    assert similar in after, "the end of another address is no address"
    document = await api.document(instance)
    assert f"Rejected by {pseudonym}: No." in document["errorMessage"]
    assert document["lastFailure"]["message"] == document["errorMessage"]
    assert {entry["id"] for entry in await entries(api, actor=kim.id)} == done
    assert {entry["actor"]["email"] for entry in await entries(api, actor=kim.id)} == {pseudonym}
    assert ann.email in (await api.document(other))["errorMessage"]
    [entry] = [each for each in await entries(api, object=kim.id) if each["operation"] == "erase_person"]
    assert entry["actor"]["id"] == "operator"
    assert entry["after"]["pseudonym"] == pseudonym
    assert kim.email not in json.dumps(entry)

    again = await erase(api, kim.email, "--yes")
    assert (again.exit_code, again.stdout) == (1, "")
    assert f"Neither the audit log nor an answer has the address {kim.email}." in again.stderr
    await remove(api, made["id"])


async def test_the_name_goes_from_the_entries_about_the_account_and_from_no_others(api: Api) -> None:
    path = f"organizations/{api.organization}/users"
    kim, lee = [
        (email, accepted(await api.post(path, {"email": email, "name": NAME, "roles": []}))["id"])
        for email in (fresh_email(), fresh_email())
    ]
    await remove(api, kim[1])

    assert (await erase(api, kim[0], "--yes")).exit_code == 0

    names = [(entry["after"] or entry["before"]).get("name") for entry in await entries(api, object=kim[1])]
    assert names == [f"erased-{kim[1][-8:]}", f"erased-{kim[1][-8:]}", None]
    assert [entry["after"]["name"] for entry in await entries(api, object=lee[1])] == [NAME]
    await remove(api, lee[1])


async def test_an_account_that_exists_is_not_erased(api: Api) -> None:
    who = await person(api, "Guest")
    result = await erase(api, who.email, "--yes")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"There is an account {who.email}.\nRemove it from all organizations first" in result.stderr
    assert [entry["actor"]["email"] for entry in await entries(api, actor=who.id)] in ([], [who.email])


WITH_MESSAGES = ("rollout_instances", "change_set_instances")


@pytest.mark.slow  # launches twice, and waits for a wave
async def test_the_owner_of_an_unfinished_change_set_or_rollout_gets_the_pseudonym(api: Api) -> None:
    kim = await person(api, "Administrator")
    application = await api.application("launch: {steps: []}\ndestroy: {steps: []}\n")
    instances = [await api.launch(application) for _ in range(2)]
    for instance in instances:
        await api.settled(instance)
    version = accepted(await api.put_yaml(f"applications/{application}/manifest", "launch: {steps: []}\n"))["version"]
    within = f"organizations/{api.organization}"
    wanted = {"applicationId": application, "version": version, "ids": instances, "waves": [1], "pause": None}
    rollout = accepted(await kim.post(f"{within}/rollouts", wanted))["id"]
    accepted(await kim.post(f"rollouts/{rollout}/stop"))  # else it goes on, and takes messages away
    changes = accepted(await kim.post(f"{within}/change-sets", {"act": "destroy", "ids": instances}))["id"]
    async with api.database.transaction() as connection:
        for table in WITH_MESSAGES:
            await connection.execute(f"UPDATE {table} SET message = %s".encode(), [f"{kim.email} has no right."])
    await remove(api, kim.id)

    assert (await erase(api, kim.email, "--yes")).exit_code == 0

    assert accepted(await api.get(f"change-sets/{changes}"))["ownerEmail"] == f"erased-{kim.id[-8:]}"
    assert kim.email not in (await api.get(f"rollouts/{rollout}")).text
    async with api.database.connection() as connection:
        rows = await connection.execute("SELECT owner_email FROM rollouts WHERE id = %s", (rollout,))
        assert await rows.fetchall() == [(f"erased-{kim.id[-8:]}",)]
        for table in WITH_MESSAGES:
            rows = await connection.execute(f"SELECT DISTINCT message FROM {table}".encode())
            assert await rows.fetchall() == [(f"erased-{kim.id[-8:]} has no right.",)], table


# Columns with the address or name of a person that an erasure needs not look at by itself.
NOT_ERASED = {
    ("users", "email"),  # goes with the account, which is removed before
    *(("recurring_schedules", column) for column in ("owner_email", "owner_name")),  # the schedules go with it too
    *(("audit_entries", column) for column in ("actor_email", "token_name")),  # `erase_entries`, last of all
}


async def test_every_column_with_the_address_of_a_person_is_erased(api: Api) -> None:
    """A table that nobody registers would keep the address of a person who left, and nobody would notice."""
    statement = """
        SELECT relname, attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition AND attnum > 0
          AND (attname LIKE '%%email%%' OR attname IN ('owner_name', 'token_name'))
    """
    async with api.database.connection() as connection:
        columns = {tuple(row) for row in await (await connection.execute(statement.encode())).fetchall()}
    erasing = [traces.erase.text.decode() for traces in (*users.traces, *FEATURES.traces())]
    erased = {
        (table, column)
        for text in erasing
        for table, assigned in re.findall(r"UPDATE (\w+) SET (.*?)\nWHERE", text, re.DOTALL)
        for column in re.findall(r"(\w+) = ", assigned)
    }
    assert columns - erased - NOT_ERASED == set()
