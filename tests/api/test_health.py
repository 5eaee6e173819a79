"""What Prometheus is shown (docs/reference/metrics.md)."""

from datetime import UTC, datetime

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from launchbay.limits import METRIC_NAMES
from launchbay.settings import Settings
from launchbay.store.jobs import note_backup
from launchbay.telemetry import metrics
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.service import METRICS_TOKEN, Api, Caller, accepted, refused, running_api

TOKEN = "a token of sorts"
WORK = """
launch:
  steps:
    - rest: {action: wait, parameters: {delay: 0 sec}}
    - leave: {action: restcall, parameters: {command: "http://127.0.0.1:1/"}, precedingPhases: [rest]}
"""


async def ask(caller: Caller) -> httpx.Response:
    return await caller.client.get(caller.client.base_url.join("/metrics"))


async def seen(api: Api) -> dict[tuple[str, ...], float]:
    """Return the samples by name and labels' values, without buckets.

    A process that has tried all operations has thousands of them, and would read for seconds in the server's own loop.
    """
    answer = await ask(api.caller(f"Bearer {METRICS_TOKEN}"))
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = [line for line in answer.text.splitlines() if "_bucket{" not in line]
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families("\n".join(lines))
        for sample in family.samples
    }


def grown(before: dict[tuple[str, ...], float], after: dict[tuple[str, ...], float], *key: str) -> float:
    return after.get(key, 0.0) - before.get(key, 0.0)


@pytest.mark.slow
async def test_requests_are_counted_by_operation_and_status(api: Api) -> None:
    before = await seen(api)
    for _ in range(3):
        accepted(await api.get("organizations"))
    refused(await api.get(f"instances/{'0' * 24}"), 404)
    after = await seen(api)
    assert grown(before, after, "launchbay_http_request_seconds_count", "list_organizations", "200") == 3
    assert grown(before, after, "launchbay_http_request_seconds_count", "read_instance", "404") == 1
    assert grown(before, after, "launchbay_http_refusals_total", "NotFound") == 1


@pytest.mark.slow
async def test_jobs_and_steps_are_counted_by_how_they_end(api: Api) -> None:
    before = await seen(api)
    failed = await api.settled(await api.launch(await api.application(WORK)))
    assert failed["status"] == "Failed"
    await api.running("launch: {steps: []}")
    after = await seen(api)
    assert grown(before, after, "launchbay_job_seconds_count", "launch", "Succeeded") == 1
    assert grown(before, after, "launchbay_job_seconds_count", "launch", "Failed") == 1
    assert grown(before, after, "launchbay_job_wait_seconds_count") == 2
    assert grown(before, after, "launchbay_step_seconds_count", "Failed") == 1
    while after["launchbay_jobs_running",] or after["launchbay_jobs_under_way",]:  # a worker gives its slot back later
        after = await seen(api)


@pytest.mark.slow
async def test_lateness_of_what_falls_due_is_counted(api: Api) -> None:
    instance = await api.running("launch: {steps: []}\ngo: {steps: []}")
    before = await seen(api)
    accepted(await api.post(f"instances/{instance}/go/schedule", {"interval": "1"}))
    await eventually(
        lambda: seen(api), lambda found: grown(before, found, "launchbay_schedule_lateness_seconds_count", "workflow")
    )


async def test_the_load_of_the_database_is_sampled(api: Api) -> None:
    sampled = await seen(api)
    # a job of the test before may still be on its way
    sampled = await eventually(lambda: seen(api), lambda sampled: sampled["launchbay_queue_depth",] <= 0)
    assert sampled["launchbay_database_up",] == 1
    assert sampled["launchbay_workers",] == 1
    assert sampled["launchbay_schedules_overdue",] == 0
    assert abs(sampled["launchbay_clock_ahead_seconds",]) < 1  # one clock for both, here
    assert sampled["launchbay_last_backup_timestamp_seconds",] == 0
    async with api.database.connection() as connection:
        await note_backup(connection, at=datetime(2026, 1, 2, tzinfo=UTC))
    noted = (await seen(api))["launchbay_last_backup_timestamp_seconds",]
    assert noted == datetime(2026, 1, 2, tzinfo=UTC).timestamp()
    assert sampled["launchbay_database_pool_connections", "idle"] + sampled[
        "launchbay_database_pool_connections", "used"
    ] == sum(value for key, value in sampled.items() if key[0] == "launchbay_database_pool_connections")


ENDED = "launchbay_ended_job_seconds_count"


@pytest.mark.slow
async def test_ended_jobs_are_counted_by_the_names_that_the_settings_list(databases: Databases) -> None:
    async with running_api(databases.create(), metrics_applications="shop*, Blog", metrics_environments="d*") as api:
        before = await seen(api)
        [environment] = [
            each["name"] for each in accepted(await api.get(f"organizations/{api.organization}/environments"))
        ]
        shop = await api.application("launch: {steps: []}", "shop-1")
        hidden = await api.application(WORK, "blog")
        for application in (shop, shop, hidden):
            await api.settled(await api.launch(application))
        after = await seen(api)
        assert grown(before, after, ENDED, "shop-1", environment, "succeeded") == 2
        assert grown(before, after, ENDED, "other", environment, "failed") == 1
        assert not [key for key in after if "blog" in key or api.organization in key]


LABELED = "launchbay_labeled_job_seconds_count"  # by label, outcome, value


@pytest.mark.slow
async def test_ended_jobs_are_counted_by_the_labels_that_the_settings_list(databases: Databases) -> None:
    async with running_api(databases.create(), metrics_labels="team, tier=web, tier=d*") as api:
        before = await seen(api)
        works, fails = await api.application("launch: {steps: []}", "works"), await api.application(WORK, "fails")
        every: list[tuple[str, dict[str, str]]] = [
            (works, {"team": "blue", "tier": "web", "cost": "secret-4711"}),
            (works, {"team": "red", "tier": "cache"}),
            (fails, {"team": "red"}),
            (fails, {}),
        ]
        for application, labels in every:
            await api.settled(await api.launch(application, labels=labels))
        after = await seen(api)
        assert grown(before, after, LABELED, "team", "succeeded", "blue") == 1
        assert grown(before, after, LABELED, "team", "succeeded", "red") == 1
        assert grown(before, after, LABELED, "team", "failed", "red") == 1
        assert grown(before, after, LABELED, "tier", "succeeded", "web") == 1
        assert grown(before, after, LABELED, "tier", "succeeded", "other") == 1
        assert {key[1] for key in after if key[0] == LABELED} == {"team", "tier"}
        assert not [key for key in after if "secret-4711" in key]


@pytest.mark.slow
async def test_the_job_that_deletes_its_instance_counts_by_its_labels(databases: Databases) -> None:
    async with running_api(databases.create(), metrics_labels="team") as api:
        before = await seen(api)
        instance = await api.launch(await api.application("launch: {steps: []}"), labels={"team": "green"})
        await api.settled(instance)
        accepted(await api.delete(f"instances/{instance}?force=1"))
        await eventually(
            lambda: seen(api), lambda found: grown(before, found, LABELED, "team", "succeeded", "green") >= 2
        )


async def test_a_cancelled_job_is_no_failed_one_in_the_metrics(databases: Databases) -> None:
    async with running_api(databases.create(), metrics_applications="*") as api:
        waits = "launch: {steps: []}\nrest: {steps: [{rest: {action: wait, parameters: {delay: 10 minutes}}}]}"
        instance = await api.launch(await api.application(waits, "patient"))
        await api.settled(instance)
        started = await api.post(f"instances/{instance}/rest", {})
        job = started.headers["Launchbay-Job"]
        accepted(await api.delete(f"instances/{instance}/jobs/{job}"))
        await api.settled(instance)
        after = await seen(api)
        assert after[ENDED, "patient", "other", "cancelled"] == 1


def test_beyond_the_limit_of_names_all_are_other() -> None:
    names = metrics._Names(["*"])
    most = 4 * METRIC_NAMES // 5 + 1
    shown = [names.label(f"app {number}", "one organization") for number in range(METRIC_NAMES + 5)]
    assert shown[:most] == [f"app {number}" for number in range(most)]
    assert set(shown[most:]) == {"other"}
    # Which leaves names for others.
    assert names.label("app of another", "another organization") == "app of another"
    more = [names.label(f"app {organization}", f"organization {organization}") for organization in "abcdefghijklmnop"]
    assert more[-5:] == ["other"] * 5
    assert names.label("app 0", "one organization") == "app 0"


async def test_without_a_token_nobody_reads_the_metrics(databases: Databases) -> None:
    async with running_api(databases.create(), engine=False, metrics_token="") as api:
        for authorization in (None, "Bearer ", "Bearer", api.client.headers["authorization"]):
            answer = await ask(api.caller(authorization))
            refused(answer, 401, "NotAuthenticated")
            assert "LAUNCHBAY_METRICS_TOKEN" in answer.json()["errors"][0]


async def test_a_token_closes_the_metrics_to_others(databases: Databases) -> None:
    async with running_api(databases.create(), engine=False, metrics_token=TOKEN) as api:
        refused(await ask(api.caller(None)), 401, "NotAuthenticated")
        refused(await ask(api.caller("Bearer another")), 401, "NotAuthenticated")
        refused(await ask(api), 401, "NotAuthenticated")
        assert (await ask(api.caller(f"Bearer {TOKEN}"))).status_code == 200
    assert TOKEN not in repr(Settings(metrics_token=TOKEN))
