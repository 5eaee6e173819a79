"""All instances of an organization: filters, orders, cursors, counts, and what the caller may see."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from launchbay.limits import SEARCH_WORDS
from launchbay.store.schema import change_indexes
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.manifests import FAILING_EARLY, PAUSING
from tests.support.service import UNKNOWN, Api, Caller, accepted, fresh_name, refused, running_api


@pytest.fixture(scope="module")
async def own(databases: Databases) -> AsyncIterator[Api]:
    """A service of this file alone, whose lists have only what its tests launch."""
    url = databases.create()
    async with running_api(url) as api:
        yield api
    databases.drop(url)


async def listed(api: Api, caller: Caller | None = None, /, **query: Any) -> list[Any]:
    """Return the instances that a filter finds."""
    found: list[Any] = accepted(await (caller or api).get(f"organizations/{api.organization}/instances", **query))
    return found


async def names(api: Api, caller: Caller | None = None, /, **query: Any) -> list[str]:
    return [each["name"] for each in await listed(api, caller, **query)]


async def test_an_instance_is_listed_with_what_its_last_job_came_to(own: Api) -> None:
    application = await own.application(PAUSING, name="listed one")
    instance = await own.launch(application, instanceName="one", destroyInterval=-1)
    await own.settled(instance)
    [found] = await listed(own, name="one")
    [job] = (await own.document(instance))["workflowHistory"]
    assert found == {
        "id": instance,
        "name": "one",
        "status": "Running",
        "health": "Healthy",
        "applicationId": application,
        "applicationName": "listed one",
        "environmentId": own.environment,
        "environmentName": found["environmentName"],
        "version": 2,
        "ownerId": found["ownerId"],
        "parentId": None,
        "labels": {},
        "components": {
            "total": 1,
            "running": 1,
            **dict.fromkeys(("failed", "busy", "waiting", "sleeping", "interrupted", "destroyed", "notStarted"), 0),
        },
        "createdAt": found["createdAt"],
        "destroyAt": None,
        "waitingDestroy": None,
        "isAsleep": False,
        "isDrifted": False,
        "isObserved": False,
        "secretsChanged": False,
        "isFrozen": False,
        "freeze": None,
        "lastJob": {
            "id": job["id"],
            "number": 1,
            "workflow": "launch",
            "status": "Succeeded",
            "startedAt": job["startedAt"],
            "finishedAt": job["finishedAt"],
            "errorMessage": None,
            "cancelled": False,
        },
    }


async def test_failures_among_many_are_found_by_one_filter(own: Api) -> None:
    works, fails = await own.application(PAUSING), await own.application(FAILING_EARLY)
    good = [await own.launch(works, instanceName=fresh_name("good")) for _ in range(6)]
    bad = [await own.launch(fails, instanceName=fresh_name("bad")) for _ in range(3)]
    for instance in good + bad:
        await own.settled(instance)
    apps = f"{works},{fails}"
    found = await listed(own, lastStatus="Failed", application=apps)
    assert {each["id"] for each in found} == set(bad)
    assert {each["health"] for each in found} == {"Failed"}
    assert all(each["lastJob"]["errorMessage"] for each in found)
    assert {each["id"] for each in await listed(own, lastStatus="Succeeded", application=apps)} == set(good)
    assert await listed(own, lastStatus="Failed", lastWorkflow="destroy", application=apps) == []
    counted = await own.get(
        f"organizations/{own.organization}/instances", lastStatus="Failed", application=apps, limit=1, count="true"
    )
    assert counted.headers["launchbay-total-count"] == "3"
    assert len(accepted(counted)) == 1


@pytest.mark.parametrize("sort", ["name", "-name", "created", "-created", "lastJob", "-lastJob", "expiry", "-expiry"])
async def test_pages_in_every_order_have_each_instance_once(own: Api, sort: str) -> None:
    application = await own.application(PAUSING)
    made = [
        await own.launch(application, instanceName=name, destroyInterval=interval)
        for name, interval in [("b", -1), ("a", 9_000_000), ("c", 8_000_000), ("a", -1), ("Ä", 7_000_000)]
    ]
    for instance in made:
        await own.settled(instance)
    whole = await listed(own, application=application, sort=sort)
    assert {each["id"] for each in whole} == set(made)
    opposite = await listed(own, application=application, sort=sort[1:] if sort[0] == "-" else f"-{sort}")
    assert opposite == whole[::-1]
    keys: dict[str, Any] = {
        "created": lambda each: each["id"],
        "lastJob": lambda each: each["lastJob"]["finishedAt"],
        "expiry": lambda each: each["destroyAt"] or float("inf"),
    }
    if sort in keys:
        assert [keys[sort](each) for each in whole] == sorted(map(keys[sort], whole))
    paged, path = [], f"organizations/{own.organization}/instances?application={application}&sort={sort}&limit=2"
    while path:
        answer = await own.get(path)
        paged += accepted(answer)
        path = answer.links.get("next", {}).get("url", "").removeprefix("/api/1/")
    assert paged == whole


async def test_a_cursor_stays_good_when_its_instance_is_deleted(own: Api) -> None:
    application = await own.application(PAUSING)
    made = [await own.launch(application, instanceName=name) for name in ("x1", "x2", "x3")]
    for instance in made:
        await own.settled(instance)
    first = await own.get(f"organizations/{own.organization}/instances", application=application, sort="name", limit=2)
    link = first.links["next"]["url"].removeprefix("/api/1/")
    accepted(await own.delete(f"instances/{made[1]}?force=1"))
    await own.gone(made[1])
    assert [each["name"] for each in accepted(await own.get(link))] == ["x3"]
    refused(await own.get(link.replace("sort=name", "sort=created")), 400, "InvalidCursor")


async def test_text_is_found_in_names_labels_and_ids(own: Api) -> None:
    application = await own.application(PAUSING)
    made = {}
    for name in ("shop-Berlin-1", "shop-berlin-2", "archive"):
        made[name] = await own.launch(application, instanceName=name)
    accepted(await own.put(f"instances/{made['archive']}/labels", {"city": "berlin"}))
    query = {"application": application, "sort": "name"}
    assert await names(own, namePart="BERLIN", **query) == ["shop-Berlin-1", "shop-berlin-2"]
    assert await names(own, q="berlin", **query) == ["archive", "shop-Berlin-1", "shop-berlin-2"]
    assert await names(own, q="berlin arch", **query) == ["archive"]
    assert await names(own, q=made["archive"][:20], **query) == ["archive"]
    assert await names(own, q="2", namePart="berlin", **query) == ["shop-berlin-2"]
    assert await names(own, q="100%", **query) == []


async def test_selectors_choose_by_labels(own: Api) -> None:
    application = await own.application(PAUSING)
    for name, labels in {
        "web": {"team": "web", "tier": "front"},
        "db": {"team": "web", "tier": "db"},
        "ops": {"team": "ops"},
        "plain": {},
    }.items():
        instance = await own.launch(application, instanceName=name)
        accepted(await own.put(f"instances/{instance}/labels", labels))
        assert accepted(await own.get(f"instances/{instance}/labels")) == labels

    async def chosen(selector: str) -> set[str]:
        return set(await names(own, application=application, labels=selector))

    assert await chosen("team=web") == {"web", "db"}
    assert await chosen("team=web,tier!=db") == {"web"}
    assert await chosen("tier!=db") == {"web", "ops", "plain"}
    assert await chosen("team in (ops, none)") == {"ops"}
    assert await chosen("team notin (ops,none)") == {"web", "db", "plain"}
    assert await chosen("tier") == {"web", "db"}
    assert await chosen("!tier") == {"ops", "plain"}
    assert await chosen("team=web,team=ops") == set()
    for wrong in ("team=", "a==b=c", "team in web", "team=web,", "=x", "te am"):
        answer = await own.get(f"organizations/{own.organization}/instances", labels=wrong)
        if wrong == "team=":
            assert accepted(answer) == []
        else:
            refused(answer, 400)


def cursor(*parts: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


async def test_a_wrong_value_is_refused_with_the_right_ones(own: Api) -> None:
    path = f"organizations/{own.organization}/instances"
    assert "Running" in refused(await own.get(path, status="Runing"), 400, "InvalidFilter")
    assert "Succeeded" in refused(await own.get(path, lastStatus="Running"), 400, "InvalidFilter")
    assert "lastJob" in refused(await own.get(path, sort="age"), 400, "InvalidFilter")
    refused(await own.get(path, after="nonsense"), 400, "InvalidCursor")
    for wrong in (["today", UNKNOWN], ["infinity", "x"], ["\0", UNKNOWN], [1, UNKNOWN]):
        refused(await own.get(path, sort="lastJob", after=cursor("lastJob", *wrong)), 400, "InvalidCursor")
    jobs = f"organizations/{own.organization}/jobs"
    for time in ("", "x", "-1", "NaN", "1e400", "5 days", "294277-01-01", "0001-01-01T00:00:00+10:00"):
        for where, order in ((path, "lastJob"), (path, "-expiry"), (jobs, "-created")):
            after = cursor(order, time, UNKNOWN)
            refused(await own.get(where, sort=order, after=after), 400, "InvalidCursor")
    for odd in ("2026-W01-1", "2026-01-01T00:00:00+20:00"):
        accepted(await own.get(path, sort="lastJob", after=cursor("lastJob", odd, UNKNOWN)))
    by_id = cursor("created", "", UNKNOWN)
    refused(await own.get(jobs, sort="created", after=by_id), 400, "InvalidCursor")
    for name in ("expiresBefore", "version"):
        refused(await own.get(path, **{name: 10**16}), 400)
    refused(await own.get(jobs, since=10**16), 400)
    refused(await own.get(path, application="shop"), 400, "InvalidFilter")


async def test_a_list_has_what_the_roles_of_the_caller_permit(own: Api) -> None:
    mine, other = await own.application(PAUSING), await own.application(PAUSING)
    environment = await own.offer()
    here = await own.launch(mine)
    there = await own.launch(mine, environmentId=environment)
    foreign = await own.launch(other)

    async def seen(*permissions: str) -> set[str]:
        answer = await listed(own, await own.member(*permissions), application=f"{mine},{other}")
        return {each["id"] for each in answer}

    assert await seen() == set()
    assert await seen("Read: [/*]") == {here, there, foreign}
    assert await seen(f"Read: [/applications/{mine}]") == set()
    assert await seen(f"Read: [/applications/{mine}/*]") == {here, there}
    assert await seen(f"Read: [/applications/*, /environments/{environment}]") == {there}
    assert await seen(f"Read: [/applications/*/instances/{here[:20]}*]") == {here}
    whole, one = f"Read: [/applications/{other}/instances/*]", f"Read: [/applications/{mine}/instances/{there}]"
    assert await seen(whole, one) == {there, foreign}
    counting = await own.member(f"Read: [/applications/{mine}/*]")
    answer = await counting.get(f"organizations/{own.organization}/instances", count="true", limit=1)
    assert answer.headers["launchbay-total-count"] == "2"
    stranger, _, _ = await own.outsider()
    refused(await stranger.get(f"organizations/{own.organization}/instances"), 403)


async def test_lists_of_an_environment_application_and_revision_have_what_the_caller_may_read(own: Api) -> None:
    mine, other = await own.application(PAUSING), await own.application(PAUSING)
    environment = await own.offer()
    here, there = await own.launch(mine), await own.launch(mine, environmentId=environment)
    foreign = await own.launch(other, environmentId=environment)
    revision = accepted(await own.get(f"applications/{mine}/instances"))[0]["revision"]
    one = await own.member(f"Read: [/applications/{mine}, /applications/{mine}/*, /environments/{environment}]")
    every = await own.member("Read: [/*]")

    async def listed_in(who: Caller, path: str) -> set[str]:
        return {each["id"] for each in accepted(await who.get(f"{path}/instances"))}

    for path, of_one, of_all in (
        (f"environments/{environment}", {there}, {there, foreign}),
        (f"applications/{mine}", {there}, {here, there}),
        (f"revisions/{revision}", {there}, {here, there}),
    ):
        assert await listed_in(one, path) == of_one
        assert await listed_in(every, path) == of_all


async def test_labels_are_changed_by_who_may_edit_and_are_checked(own: Api) -> None:
    application = await own.application(PAUSING)
    instance = await own.launch(application)
    reader = await own.member("Read: [/*]")
    for path in (f"instances/{instance}", f"applications/{application}", f"environments/{own.environment}"):
        accepted(await own.put(f"{path}/labels", {"b": "2", "a": "1"}))
        assert accepted(await reader.get(f"{path}/labels")) == {"a": "1", "b": "2"}
        refused(await reader.put(f"{path}/labels", {}), 403)
        refused(await own.put(f"{path}/labels", {"a b": "1"}), 400, "InvalidLabel")
        refused(await own.put(f"{path}/labels", {"a": "x,y"}), 400, "InvalidLabel")
        refused(await own.put(f"{path}/labels", {f"l{number}": "" for number in range(33)}), 400, "InvalidLabel")
        told = refused(await own.put(f"{path}/labels", {"size": 1}), 400, "InvalidLabel")
        assert told == "The value of the label size must be a string, not a whole number."
        told = refused(await own.put(f"{path}/labels", {"good": "1", "team": "a b"}), 400, "InvalidLabel")
        assert told.startswith("The label team can't have the value 'a b'. Use at most ")


async def test_a_launch_gives_labels(own: Api) -> None:
    application = await own.application(PAUSING)
    instance = await own.launch(application, labels={"team": "web"})
    assert (await own.document(instance))["labels"] == {"team": "web"}
    [found] = await listed(own, application=application, labels="team=web")
    assert (found["id"], found["labels"]) == (instance, {"team": "web"})
    refused(await own.post(f"applications/{application}/launch", {"labels": {"team": "a b"}}), 400, "InvalidLabel")


async def test_labels_that_the_application_declares_are_a_parameter(own: Api) -> None:
    application = await own.application("launch:\n  parameters: [{labels: {default: none}}]\n  steps: []\n")
    for value in ("red", {"team": "web"}):
        instance = await own.launch(application, labels=value)
        document = await own.settled(instance)
        assert (document["parameters"], document["labels"]) == ({"labels": value}, {})
        assert document["parameterOrigins"] == {"labels": "given"}
    instance = await own.launch(application, labels={"team": "web"}, parameters={"labels": "red"})
    document = await own.settled(instance)
    assert (document["parameters"], document["labels"]) == ({"labels": "red"}, {"team": "web"})


async def test_labels_beside_parameters_of_the_obsolete_form_are_a_parameter(own: Api) -> None:
    application = await own.application(
        "launch:\n  parameters: [{size: {default: 1}}, {labels: {default: {}}}]\n  steps: []\n"
    )
    instance = await own.launch(application, size=2, labels={"team": "web"})
    document = await own.settled(instance)
    assert document["parameters"] == {"size": 2, "labels": {"team": "web"}}
    assert document["labels"] == {}


async def jobs(api: Api, caller: Caller | None = None, /, **query: Any) -> list[Any]:
    found: list[Any] = accepted(await (caller or api).get(f"organizations/{api.organization}/jobs", **query))
    return found


async def test_jobs_of_all_instances_are_listed_newest_first_by_filters(own: Api) -> None:
    application, environment = await own.application(PAUSING, name="many jobs"), await own.offer()
    first = await own.launch(application, instanceName="first")
    second = await own.launch(application, environmentId=environment)
    await own.settled(first)
    await own.settled(second)
    await own.run(first, "pause", seconds="0")
    whole = await jobs(own, application=application)
    assert [each["createdAt"] for each in whole] == sorted((each["createdAt"] for each in whole), reverse=True)
    [job] = await jobs(own, application=application, workflow="pause")
    assert whole[0] == job
    history = (await own.document(first))["workflowHistory"][0]
    assert job == {
        "id": history["id"],
        "number": 2,
        "workflow": "pause",
        "status": "Succeeded",
        "instanceId": first,
        "instanceName": "first",
        "applicationId": application,
        "applicationName": "many jobs",
        "environmentId": own.environment,
        "environmentName": job["environmentName"],
        "ownerId": history["ownerId"],
        "parentJobId": None,
        "createdAt": job["createdAt"],
        "startedAt": history["startedAt"],
        "finishedAt": history["finishedAt"],
        "errorMessage": None,
        "cancelled": False,
        "currentStep": None,
        "beganBy": accepted(await own.get(f"jobs/{history['id']}"))["beganBy"],
    }
    assert await jobs(own, instance=first) == [each for each in whole if each["instanceId"] == first]
    assert await jobs(own, application=application, q="FIRST") == await jobs(own, instance=first)
    assert await jobs(own, application=application, q="first", instance=second) == []
    assert await jobs(own, application=application, longerThan=3_600_000) == []
    assert await jobs(own, application=application, longerThan=0) == whole
    assert [each["instanceId"] for each in await jobs(own, application=application, environment=environment)] == [
        second
    ]
    assert await jobs(own, application=application, status="Failed,Executing") == []
    assert await jobs(own, application=application, since=job["createdAt"] + 1) == []
    assert await jobs(own, application=application, sort="created") == whole[::-1]
    page = await own.get(f"organizations/{own.organization}/jobs", application=application, limit=2, count="true")
    assert page.headers["launchbay-total-count"] == "3"
    following = await own.get(page.links["next"]["url"].removeprefix("/api/1/"))
    assert accepted(page) + accepted(following) == whole
    refused(await own.get(f"organizations/{own.organization}/jobs", status="Done"), 400, "InvalidFilter")
    one = await own.member(f"Read: [/applications/*/instances/{second}]")
    assert [each["instanceId"] for each in await jobs(own, one, application=application)] == [second]
    accepted(await own.delete(f"instances/{first}?force=1"))
    await own.gone(first)
    assert [each["instanceId"] for each in await jobs(own, application=application)] == [second]


async def test_a_job_is_listed_while_it_runs_and_with_its_error(own: Api) -> None:
    application = await own.application(PAUSING)
    instance = await own.launch(application)
    await own.settled(instance)
    accepted(await own.post(f"instances/{instance}/pause", {"seconds": "600"}))
    [job] = await jobs(own, application=application, status="Executing")
    assert (job["finishedAt"], (await summary(own))["running"]) == (None, 1)
    await eventually(lambda: jobs(own, instance=instance), lambda found: found[0]["currentStep"])
    accepted(await own.delete(f"instances/{instance}/jobs/{job['id']}"))
    await own.settled(instance)
    [job] = await jobs(own, application=application, status="Failed")
    assert "Cancelled" in job["errorMessage"]


async def summary(api: Api, caller: Caller | None = None) -> Any:
    return accepted(await (caller or api).get(f"organizations/{api.organization}/summary"))


async def test_lists_and_the_summary_tell_requested_instances_from_those_that_are_launched(own: Api) -> None:
    manifest = "header: {concurrency: 1}\nlaunch: {steps: [{rest: {action: wait, parameters: {delay: 60 sec}}}]}\n"
    application = await own.application(manifest, name="one at a time")
    environment = await own.offer()
    first = await own.launch(application, environmentId=environment)
    await eventually(
        lambda: listed(own, application=application), lambda found: [each["status"] for each in found] == ["Executing"]
    )
    second = await own.launch(application, environmentId=environment)
    for statuses, expected in (
        ("Requested", {second: "Requested"}),
        ("Executing", {first: "Executing"}),
        ("Executing,Requested", {first: "Executing", second: "Requested"}),
        ("Executing,Running", {first: "Executing"}),
        ("Requested,Running", {second: "Requested"}),
        ("Failed,Running", {}),
    ):
        found = await listed(own, application=application, status=statuses)
        assert {each["id"]: each["status"] for each in found} == expected, statuses
    seen = await summary(own, await own.member(f"Read: [/applications/*, /environments/{environment}]"))
    assert (seen["total"], seen["byStatus"]) == (2, {"Executing": 1, "Requested": 1})
    for instance in (second, first):
        accepted(await own.delete(f"instances/{instance}?force=1"))
    await eventually(
        lambda: listed(own, application=application),
        lambda found: not {each["status"] for each in found} - {"Destroyed"},
    )


async def test_a_summary_counts_what_the_caller_may_read(own: Api) -> None:
    works, fails = await own.application(PAUSING, name="sum a"), await own.application(FAILING_EARLY, name="sum b")
    environment = await own.offer()
    made = [await own.launch(works, environmentId=environment, destroyInterval=-1) for _ in range(2)]
    made += [await own.launch(fails, environmentId=environment)]
    for instance in made:
        await own.settled(instance)
    only = await own.member(f"Read: [/applications/*, /environments/{environment}]")
    assert await summary(own, only) == {
        "total": 3,
        "byStatus": {"Running": 2, "Failed": 1},
        "byLastStatus": {"Succeeded": 2, "Failed": 1},
        "running": 0,
        "approvals": 0,
        "expiring": 1,
        "failures": 1,
        "applications": [
            {"id": works, "name": "sum a", "total": 2, "byStatus": {"Running": 2}, "byLastStatus": {"Succeeded": 2}},
            {"id": fails, "name": "sum b", "total": 1, "byStatus": {"Failed": 1}, "byLastStatus": {"Failed": 1}},
        ],
        "environments": [
            {
                "id": environment,
                "name": (await listed(own, environment=environment))[0]["environmentName"],
                "total": 3,
                "byStatus": {"Running": 2, "Failed": 1},
                "byLastStatus": {"Succeeded": 2, "Failed": 1},
            }
        ],
    }
    whole = await summary(own)
    assert whole["total"] == len(await listed(own, limit=1000))
    assert (await summary(own, await own.member()))["total"] == 0


async def test_jobs_of_earlier_versions_are_added_to_the_list(own: Api) -> None:
    application = await own.application(PAUSING)
    instance = await own.launch(application)
    await own.settled(instance)
    [job] = await jobs(own, application=application)
    async with own.database.transaction() as connection:
        await connection.execute("DELETE FROM fleet_jobs WHERE job_id = %s", [job["id"]])
        await connection.execute("INSERT INTO fleet_jobs_unlisted VALUES ('g')")
    await eventually(lambda: jobs(own, application=application), lambda found: found == [job])


@pytest.mark.parametrize(
    ("former", "definition", "word"),
    [
        ("instances_words", "launchbay_word_keys(organization_id, launchbay_search_text(name, labels))", "quokka"),
        ("instances_search", "launchbay_trigrams(launchbay_search_text(name, labels))", "wombat"),
    ],
)
async def test_searches_find_everything_while_the_index_of_words_is_made(
    own: Api, former: str, definition: str, word: str
) -> None:
    application = await own.application(PAUSING)
    instance = await own.launch(application, instanceName=f"old {word}")
    await own.settled(instance)
    groups = "ON instances USING gin (launchbay_word_groups(organization_id, launchbay_search_text(name, labels)))"
    async with own.database.transaction() as connection:  # as a version before left it
        await connection.execute("DROP INDEX instances_word_groups")
        await connection.execute(f"CREATE INDEX {former} ON instances USING gin ({definition})")
        await connection.execute(
            "INSERT INTO index_changes VALUES (1, 'instances_word_groups', %s), (2, %s, NULL)", [groups, former]
        )
    assert await names(own, q=word) == [f"old {word}"]
    async with own.database.transaction() as reader:
        await reader.execute("SELECT count(*) FROM instances")  # indexes are complete after this transaction
        for stops in (True, False):
            changing = asyncio.create_task(change_indexes(own.database))
            await eventually(lambda: _shown(own, _CHANGING))
            await change_indexes(own.database)  # another process, which finds one at it
            assert await names(own, q=word) == [f"old {word}"]
            assert (await own.settled(await own.launch(application)))["status"] == "Running", "nobody waits for it"
            if stops:
                changing.cancel()  # its process stops
                await asyncio.wait({changing})
                assert await _shown(own, "SELECT FROM pg_index WHERE NOT indisvalid")
    await changing
    assert not await _shown(own, "SELECT FROM index_changes")
    assert not await _shown(own, f"SELECT FROM pg_indexes WHERE indexname = '{former}'")
    assert await _shown(own, "SELECT FROM pg_index WHERE indexrelid = 'instances_word_groups'::regclass AND indisvalid")
    uncounted = "SELECT FROM pg_attribute WHERE attrelid = 'instances_word_groups'::regclass AND attstattarget = 0"
    assert await _shown(own, uncounted), "ANALYZE leaves the words alone"
    assert await names(own, q=word) == [f"old {word}"]


_CHANGING = """
SELECT FROM pg_stat_activity WHERE query ~ '^(CREATE|DROP) INDEX CONCURRENTLY' AND wait_event_type = 'Lock'
"""


async def _shown(api: Api, statement: str) -> bool:
    async with api.database.transaction() as connection:
        return bool(await (await connection.execute(statement)).fetchall())


@pytest.mark.parametrize("kind", ["applications", "environments"])
async def test_lists_of_applications_and_environments_take_selectors(own: Api, kind: str) -> None:
    path = f"organizations/{own.organization}/{kind}"
    made = [accepted(await own.post(path, {"name": f"{kind} with labels {number}"}))["id"] for number in range(3)]
    for number, labels in enumerate(({"team": "web", "tier": "db"}, {"team": "web"}, {"team": "ops"})):
        accepted(await own.put(f"{kind}/{made[number]}/labels", labels))

    async def found(labels: str) -> list[int]:
        rows = accepted(await own.get(path, labels=labels))
        return [made.index(row["id"]) for row in rows if row["id"] in made]

    assert await found("team=web") == [0, 1]
    assert await found("team=web,tier!=db") == [1]
    assert await found("team in (ops,web),!tier") == [1, 2]
    assert await found("tier") == [0]
    assert len(accepted(await own.get(path, labels="team", limit=2))) == 2
    refused(await own.get(path, labels="team web"), 400, "InvalidSelector")


async def test_components_are_counted_that_failed_and_that_are_busy(own: Api) -> None:
    manifest = """
    application:
      interfaces: {do: {rest: bind(good#do.rest)}}
      components:
        good:
          type: workflow.Instance
          interfaces: {do: {rest: receive-command()}}
          configuration:
            configuration.workflows:
              launch: {steps: []}
              rest: {steps: [{rest: {action: wait, parameters: {delay: 10 minutes}}}]}
        bad:
          type: workflow.Instance
          configuration:
            configuration.workflows:
              launch: {steps: [{go: {action: restcall, parameters: {command: "http://127.0.0.1:1/"}}}]}
    """
    application = await own.application(manifest)
    instance = await own.launch(application)
    assert (await own.settled(instance))["status"] == "Failed"
    [shown] = await listed(own, application=application)
    assert shown["components"]["total"] == 2
    assert (shown["components"]["failed"], shown["components"]["busy"]) == (1, 0)
    good = manifest.replace("restcall", "wait").replace('command: "http://127.0.0.1:1/"', "delay: 0")
    other = await own.application(good)
    instance = await own.launch(other)
    assert (await own.settled(instance))["status"] == "Running"
    started = await own.post(f"instances/{instance}/do.rest", {})
    await eventually(lambda: listed(own, application=other), lambda found: found[0]["components"]["busy"] == 1)
    assert (await listed(own, application=other))[0]["components"]["failed"] == 0
    accepted(await own.delete(f"instances/{instance}/jobs/{started.headers['launchbay-job']}"))


async def test_too_many_words_are_refused(own: Api) -> None:
    words = " ".join(f"word{number}" for number in range(SEARCH_WORDS + 1))
    for kind in ("instances", "jobs"):
        path = f"organizations/{own.organization}/{kind}"
        assert "11 words" in refused(await own.get(path, q=words), 400, "InvalidFilter")


async def test_jobs_are_found_by_the_beginning_of_their_id_and_by_number(own: Api) -> None:
    instance = await own.running(PAUSING)
    job = accepted(await own.get(f"instances/{instance}/jobs"))[0]["id"]
    path = f"organizations/{own.organization}/jobs"
    assert [each["id"] for each in accepted(await own.get(path, idPart=job[:20]))] == [job]
    assert [each["id"] for each in accepted(await own.get(path, instance=instance, number=1))] == [job]
    assert accepted(await own.get(path, instance=instance, number=2)) == []
    refused(await own.get(path, number=1), 400, "InvalidFilter")
    refused(await own.get(path, idPart="xyz1"), 400)


async def test_schedules_of_the_last_days_that_a_calendar_has_are_none(own: Api) -> None:
    path = f"organizations/{own.organization}/schedules"
    assert accepted(await own.get(path, since=253_402_300_799_999)) == []
    refused(await own.get(path, since=253_402_300_800_000), 400)
