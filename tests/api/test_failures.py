"""Equal failures of an organization's instances, and resuming them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from launchbay.usecases import failures
from launchbay.web.api import failures as endpoints
from launchbay.web.responses import LIST_HEADER
from tests.support.changes import Stage
from tests.support.databases import Databases
from tests.support.service import accepted, fresh_name, person, running_api

REASON = "Component 'web': workflow 'launch': step 'start' failed: {} answered 503 after {} s"


@pytest.fixture
async def stage(databases: Databases) -> AsyncIterator[Stage]:
    """A service whose engine stands still."""
    url = databases.create()
    async with running_api(url, engine=False) as running:
        yield Stage(running, None)  # type: ignore[arg-type]  # nothing here loads a manifest
    databases.drop(url)


async def listed(stage: Stage, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = accepted(await stage.api.get(f"{stage.organization}/failures{query}"))
    return found


async def test_equal_failures_are_one_item_with_their_number_and_times(stage: Stage) -> None:
    degraded = await stage.failed("The disk is full.", "Running")
    equal = [await stage.failed("It fails.") for _ in range(2)]
    names = [accepted(await stage.api.get(f"instances/{each}"))["name"] for each in equal]
    for each, name in zip(equal, names, strict=True):
        async with stage.api.database.transaction() as connection:
            await connection.execute(
                "UPDATE jobs SET error_message = %s WHERE instance_id = %s", [REASON.format(name, len(name)), each]
            )
    await stage.settled()  # it is well
    first, second = await listed(stage)
    assert (first["count"], first["failed"], first["place"]) == (2, 2, "web · start")
    assert first["reason"] == "… answered 503 after #"
    assert {each["id"] for each in first["instances"]} == set(equal)
    assert first["firstAt"] < first["lastAt"]
    assert first["message"] == REASON.format(names[1], len(names[1]))
    assert (second["count"], second["failed"], second["reason"]) == (1, 0, "The disk is full.")
    assert [each["id"] for each in second["instances"]] == [degraded]
    assert [len(each["instances"]) for each in await listed(stage, "?instances=1")] == [1, 1]


async def test_a_page_of_failures_leads_to_the_next_one(stage: Stage) -> None:
    for word in ("one", "two", "three"):
        await stage.failed(f"It failed for reason {word}.")
    whole = await stage.api.get(f"{stage.organization}/failures")
    assert whole.headers[LIST_HEADER] == "complete"
    path, found = f"{stage.organization}/failures?limit=2", list[dict[str, Any]]()
    while path:
        answer = await stage.api.client.get(path)
        assert answer.headers[LIST_HEADER] == "page"
        found += accepted(answer)
        path = answer.links.get("next", {}).get("url", "").removeprefix("/api/1/")
    assert found == whole.json()
    refused = await stage.api.get(f"{stage.organization}/failures?after=bm9uZQ")
    assert (refused.status_code, refused.json()["code"]) == (400, "InvalidCursor")


async def test_a_list_that_was_cut_says_so(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "BULK_INSTANCES", 1)
    monkeypatch.setattr(failures, "_READ_AT_ONCE", 1)
    for _ in range(2):
        await stage.failed("It failed.")
    answer = await stage.api.get(f"{stage.organization}/failures")
    assert [each["count"] for each in accepted(answer)] == [1]
    assert answer.headers[LIST_HEADER] == "page"
    assert "Only the latest" in answer.headers["Launchbay-Warnings"]


async def test_groups_count_what_the_caller_may_read_and_what_the_filters_choose(stage: Stage) -> None:
    equal = [await stage.failed("It failed.") for _ in range(3)]
    application = accepted(await stage.api.get(f"instances/{equal[0]}"))["applicationId"]
    role = {"name": fresh_name("reader"), "permissions": f"- Read: [/applications/{application}/*, /environments/*]"}
    accepted(await stage.api.post(f"{stage.organization}/roles", role))
    reader = await person(stage.api, role["name"])
    own = accepted(await reader.get(f"{stage.organization}/failures"))
    assert [(each["count"], [row["id"] for row in each["instances"]]) for each in own] == [(1, [equal[0]])]
    for query in (f"application={application}", f"instance={equal[0]}", f"q={equal[0]}"):
        assert [each["count"] for each in await listed(stage, f"?{query}")] == [1], query
    assert [each["count"] for each in await listed(stage, "?workflow=launch")] == [3]
    assert await listed(stage, "?workflow=deploy") == []
    refused = await stage.api.get(f"{stage.organization}/failures?application=x")
    assert refused.status_code == 400


@pytest.mark.features("bulk")
async def test_all_instances_with_a_failure_are_resumed_as_the_filters_choose(stage: Stage) -> None:
    equal = [await stage.failed("It failed.") for _ in range(3)]
    await stage.failed("Another reason.")
    found = {each["reason"]: each["id"] for each in await listed(stage)}
    path = f"{stage.organization}/failures/{found['It failed.']}/resume"
    one = accepted(await stage.api.post(f"{path}?instance={equal[0]}"))
    assert (one["act"], one["counts"]["waiting"]) == ("resume", 1)
    every = accepted(await stage.api.post(path))
    rows = accepted(await stage.api.get(f"bulk/{every['id']}/instances"))
    assert {row["instanceId"] for row in rows} == set(equal)
    gone = await stage.api.post(f"{stage.organization}/failures/{'0' * 24}/resume")
    assert gone.status_code == 404
    assert "No instance has this failure now." in gone.text
