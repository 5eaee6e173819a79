"""A cancelled job hasn't failed: lists, counts, groups of failures and pages say the same of it (decision 0176)."""

import re
from typing import Any

import httpx
import pytest

from launchbay import limits
from tests.support.applications import until_step
from tests.support.pages import get, words_of
from tests.support.service import EMAIL, Api, accepted, fresh_name

MANIFEST = """
launch:
  parameters: [{pause: {default: 0}}]
  steps: [{nap: {action: wait, parameters: {delay: "{$.pause}"}}}]
rest: {steps: [{nap: {action: wait, parameters: {delay: 600}}}]}
break: {steps: [{crack: {action: restcall, parameters: {command: not a URL}}}]}
"""


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    return working_service


async def cancelled(api: Api, instance: str) -> str:
    """Cancel the job under way, and return its ID."""
    job = await until_step(api, instance, "nap", "Executing")
    accepted(await api.delete(f"instances/{instance}/jobs/{job['id']}"))
    await api.settled(instance)
    return str(job["id"])


async def at_rest(api: Api) -> tuple[str, str, str]:
    """Return the name and the ID of an instance that runs, and the ID of its cancelled job."""
    name = fresh_name("Punt").replace(" ", "-")
    instance = await api.running(MANIFEST, instanceName=name)
    accepted(await api.post(f"instances/{instance}/rest", {}))
    return name, instance, await cancelled(api, instance)


async def failures_with(api: Api, instance: str) -> list[dict[str, Any]]:
    groups = accepted(await api.get(f"organizations/{api.organization}/failures?instances=1000"))
    return [each for each in groups if instance in [row["id"] for row in each["instances"]]]


async def test_the_status_stays_failed_and_every_document_says_that_it_was_cancelled(api: Api) -> None:
    name, instance, job = await at_rest(api)
    history = (await api.document(instance))["workflowHistory"]
    [listed] = accepted(await api.get(f"organizations/{api.organization}/jobs?instance={instance}&limit=1"))
    [found] = accepted(await api.get(f"organizations/{api.organization}/instances", name=name))
    shown = [
        accepted(await api.get(f"instances/{instance}/jobs"))[0],
        accepted(await api.get(f"jobs/{job}")),
        listed,
        found["lastJob"],
    ]
    assert [(each["status"], each["cancelled"]) for each in shown] == [("Failed", True)] * len(shown)
    assert accepted(await api.get(f"instances/{instance}/jobs"))[1]["cancelled"] is False
    assert history[0]["status"] == "Failed"
    assert "cancelled" not in history[0], "the established answer has its fields"


async def test_an_instance_that_runs_is_well_after_somebody_cancelled_its_workflow(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    root = f"/console/organizations/{api.organization}"
    summary = f"organizations/{api.organization}/summary"
    before = accepted(await api.get(summary))["failures"]
    name, instance, _ = await at_rest(api)
    listing = f"organizations/{api.organization}/instances"
    [found] = accepted(await api.get(listing, name=name))
    assert (found["status"], found["health"]) == ("Running", "Healthy")
    assert accepted(await api.get(listing, name=name, degraded="true")) == []
    assert await failures_with(api, instance) == []
    assert accepted(await api.get(summary))["failures"] == before
    overview = (await get(visitor, root)).answer.text
    assert f'href="/console/instances/{instance}">{name}' not in overview.partition('id="h-now"')[0]
    assert "Status: Running" in words_of((await get(visitor, f"/console/instances/{instance}")).answer.text)
    application = (await api.document(instance))["applicationId"]
    assert "Degraded" not in words_of((await get(visitor, f"/console/applications/{application}")).answer.text)
    for query, count in (("last-run:failed", 0), ("last-run:cancelled", 1), ("health:degraded", 0)):
        page = (await get(visitor, f"{root}/instances?q={query} {name}")).answer.text
        assert (f'href="/console/instances/{instance}"' in page) == bool(count), query


async def test_cancelled_runs_are_counted_and_found_apart_from_failed_ones(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    root = f"/console/organizations/{api.organization}/runs"
    name, _, job = await at_rest(api)
    for query, count in (("status:failed", 0), ("status:cancelled", 1), ("status:failed status:cancelled", 1)):
        page = (await get(visitor, f"{root}?q={query} {name}")).answer.text
        assert page.count(f'/jobs/{job}"') == count, query
    grouped = (await get(visitor, f"{root}?q=status:failed {name}&group=equal")).answer.text
    assert f"/jobs/{job}" not in grouped
    assert "Cancelled" in words_of((await get(visitor, root)).answer.text.partition("Runs of the last 24 h")[2])


async def test_an_instance_whose_launch_was_cancelled_is_not_well(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await api.launch(await api.application(MANIFEST), parameters={"pause": 600})
    await cancelled(api, instance)
    document = await api.document(instance)
    assert document["status"] == "Failed"
    assert accepted(await api.get(f"instances/{instance}/jobs"))[0]["cancelled"]
    [group] = await failures_with(api, instance)
    assert (group["place"], group["message"]) == ("launch", f"Cancelled by {EMAIL}.")
    [found] = accepted(await api.get(f"organizations/{api.organization}/instances", name=document["name"]))
    assert found["health"] == "Failed"
    overview = words_of((await get(visitor, f"/console/organizations/{api.organization}")).answer.text)
    assert "Failed or degraded" in overview
    assert f"Cancelled by {EMAIL}" in overview


async def test_what_made_an_instance_failed_is_named_although_a_command_has_failed_since(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    made = accepted(await api.post(f"organizations/{api.organization}/environments", {"name": fresh_name("quay")}))
    alone = {"environmentId": made["id"], "parameters": {"pause": 600}}
    instance = await api.launch(await api.application(MANIFEST), **alone)
    launch = await cancelled(api, instance)
    for _ in range(2):
        accepted(await api.post(f"instances/{instance}/break", {}))
        document = await api.settled(instance)
        assert (document["status"], document["lastFailure"]["workflow"]) == ("Failed", "break")
        page = (await get(visitor, f"/console/instances/{instance}")).answer.text
        why = page.partition('id="live-error"')[2].partition("<nav")[0]
        assert "The launch was cancelled:" in words_of(why)
        assert f"/jobs/{launch}/log/failure" in why
        [group] = await failures_with(api, instance)
        assert (group["place"], group["message"]) == ("launch", f"Cancelled by {EMAIL}.")
    home = f"/console/organizations/{api.organization}?environment={made['id']}"
    overview = (await get(visitor, home)).answer.text
    [row] = [each for each in re.findall(r"<li class=\"r-broken\">.*?</li>", overview, re.DOTALL) if instance in each]
    assert f"launch: Cancelled by {EMAIL}. Then break #3 failed." in " ".join(words_of(row).split())


async def test_what_made_an_instance_failed_is_named_although_its_job_has_left_the_history(
    api: Api, visitor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    crack = "{steps: [{crack: {action: restcall, parameters: {command: not a URL}}}]}"
    instance = await api.launch(await api.application(f"launch: {crack}\nbreak: {crack}\nrest: {{steps: []}}\n"))
    await api.settled(instance)
    [launch] = accepted(await api.get(f"instances/{instance}/jobs"))
    await api.run(instance, "break")
    monkeypatch.setattr(limits, "HISTORY_JOBS", 1)
    for workflow in ("break", "rest"):
        await api.run(instance, workflow)
        page = (await get(visitor, f"/console/instances/{instance}")).answer.text
        why = page.partition('id="live-error"')[2].partition("<nav")[0]
        said = " ".join(words_of(why).split())
        assert "The launch failed: launch stopped at crack " in said
        assert "must start with http:// or https://" in said
        assert f"/jobs/{launch['id']}/log/failure" in why
