"""Every list says whether it is complete or a page, and its links lead through all of it (decision 0164)."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from launchbay.client import AsyncClient, Basic
from launchbay.ids import is_id, new_id
from launchbay.limits import PAGE_ROWS, PAGE_ROWS_MAX
from launchbay.web.openapi import document
from launchbay.web.responses import LIST_HEADER
from launchbay.web.routing import Endpoint
from tests.support.changes import Stage
from tests.support.databases import Databases
from tests.support.manifests import WORKFLOWS
from tests.support.served import ENDPOINTS
from tests.support.service import EMAIL, PASSWORD, Api, accepted, person, running_api, served

# Its objects are of nearly all features.
pytestmark = pytest.mark.features(
    "bulk", "change_sets", "generations", "git_sources", "recurring", "rollouts", "webhooks"
)
LISTS = [each for each in ENDPOINTS if each.is_list]
LIMITED = [each for each in LISTS if each.query is not None and "limit" in each.query.__struct_encode_fields__]
MORE = PAGE_ROWS + 20
# Of these a fresh organization has one item or none. They are told by the one function of all complete lists.
FEW = {"list_invitations", "list_sign_in_blocks", "list_second_factors", "list_environment_offers", "list_tokens"}
FEW |= {"list_pending_users", "list_group_roles", "list_concurrency_groups", "list_jobs", "list_job_steps"}
FEW |= {"list_components", "list_organization_rules", "list_application_rules", "list_environment_rules"}
FEW |= {"list_changed_secrets"}


# What only an engine makes, one of each that is copied and all of what has no row to copy.
SEEDS = (
    """INSERT INTO git_syncs (id, source_id, status, started_at)
       VALUES (launchbay_new_id(), %(source)s, 'Failed', now())""",
    """INSERT INTO git_previews (source_id, number, branch, commit, is_open, changed_at)
       VALUES (%(source)s, 1000, 'b', 'c', true, now())""",
    """INSERT INTO webhook_deliveries (id, webhook_id, event, body)
       VALUES (launchbay_new_id(), %(webhook)s, 'signal', '{}')""",
    """INSERT INTO schedules (id, instance_id, kind, workflow, owner_id, due_at)
       SELECT launchbay_new_id(), %(instance)s, 'workflow', 'greet', 'x', now() + interval '1 day'
       FROM generate_series(1, 1100)""",
    """INSERT INTO log_lines (instance_id, job_id, level, text, at)
       SELECT %(instance)s, %(job)s, 'info', 'line', now() FROM generate_series(1, 3)""",
    """INSERT INTO zones (id, organization_id, name)
       SELECT launchbay_new_id(), %(organization)s, 'zone ' || n FROM generate_series(1, 3) AS n""",
    """INSERT INTO drift_reports (instance_id, organization_id, new_findings)
       SELECT id, organization_id, 1 FROM instances WHERE organization_id = %(organization)s""",
)


@pytest.fixture(scope="module")
async def stage(databases: Databases) -> AsyncIterator[Stage]:
    """A service whose engine stands still, so that no list changes while it is read."""
    url = databases.create()
    async with running_api(url, engine=False) as running:
        yield Stage(running, None)  # type: ignore[arg-type]  # nothing here loads a manifest
    databases.drop(url)


@pytest.fixture(scope="module")
async def client(stage: Stage) -> AsyncIterator[AsyncClient]:
    """The client, at the service behind a real port."""
    async with (
        served(stage.api) as port,
        AsyncClient(f"http://127.0.0.1:{port}", Basic(EMAIL, PASSWORD)) as client,
    ):
        yield client


async def copied(api: Api, table: str, where: str, value: str, **changes: str) -> None:
    """Copy a row until there are more than a page of them. `changes` are expressions by column, with n from 1."""
    fields = ", ".join(f"'{name}', {expression}" for name, expression in changes.items())
    async with api.database.transaction() as connection:
        found = await connection.execute(
            f"INSERT INTO {table} SELECT (jsonb_populate_record(t, jsonb_build_object({fields}))).*"
            f" FROM {table} AS t, generate_series(1, {MORE}) AS n WHERE {where} = %s",
            [value],
        )
        assert found.rowcount >= MORE, table


@pytest.fixture(scope="module")
async def addresses(stage: Stage) -> dict[str, str]:
    """The paths of the lists by operation, of objects that have more items than a page."""
    api = stage.api
    instance, application = await stage.settled(), await api.application()
    environment = accepted(await api.get(f"instances/{instance}"))["environmentId"]
    for _ in range(2):
        for make in (stage.environment, stage.role, stage.service, stage.access_token, stage.webhook, stage.host_key):
            await make()
        await person(api)
        await stage.made("organizations", {"name": f"another {new_id()}"})
        await stage.made(f"applications/{application}/revisions", {"name": new_id(), "version": 1})
        await stage.git_source()
    revision = accepted(await api.get(f"applications/{application}/revisions"))[0]["id"]
    for number in range(MORE):
        named = {"revisionId": revision} if number < 2 else {}
        await api.launch(application, environmentId=environment, **named)
    for reason in ("one", "two"):
        await stage.failed(f"It failed for reason {reason}.")
    source, webhook, approval = await stage.git_source(), await stage.webhook(), await stage.approval()
    bulk, rollout = await stage.bulk(), await stage.rollout()
    change, rare, job = await stage.change_set(), await stage.recurring_body(), await stage.job(instance)
    accepted(await api.put_yaml(f"applications/{application}/manifest", WORKFLOWS))
    asked = accepted(await api.get(f"approvals/{approval}"))["instanceId"]
    given = {"instance": instance, "source": source, "webhook": webhook, "job": job, "organization": api.organization}
    async with api.database.transaction() as connection:
        for statement in SEEDS:
            await connection.execute(statement, given)
    new = "launchbay_new_id()"
    await copied(api, "generations", "instance_id", instance, number="n + 1")
    status = (
        "(former::jsonb || jsonb_build_object('status', CASE mod(n, 2) WHEN 0 THEN 'Failed' ELSE 'Running' END))::text"
    )
    await copied(api, "instance_history", "instance_id", instance, id="nextval('instance_changes')", former=status)
    await copied(api, "bulk_runs", "id", bulk, id=new)
    await copied(api, "bulk_instances", "bulk_id", bulk, place="n + 1")
    await copied(api, "rollouts", "id", rollout, id=new)
    await copied(api, "rollout_instances", "rollout_id", rollout, place="n + 1")
    await copied(api, "change_sets", "id", change, id=new)
    for _ in range(MORE):
        await stage.made(f"{stage.organization}/recurring-schedules", rare)
    await copied(api, "git_syncs", "source_id", source, id=new)
    await copied(api, "git_previews", "source_id", source, number="n")
    await copied(api, "webhook_deliveries", "webhook_id", webhook, id=new)
    await copied(api, "approvals", "id", approval, id=new, step="'step ' || n")
    values = {
        "orgId": api.organization, "appId": application, "envId": environment, "revId": revision, "jobId": job,
        "bulkId": bulk, "rolloutId": rollout, "sourceId": source, "webhookId": webhook, "id": instance,
    }  # fmt: skip
    others = {"list_instance_approvals": {"id": asked}, "list_environment_offers": {"id": environment}}
    found: dict[str, str] = {}
    for endpoint in LISTS:
        own = {**values, **others.get(endpoint.operation_id, {})}
        path = "/".join(own[each[1:-1]] if each.startswith("{") else each for each in endpoint.path.split("/"))
        found[endpoint.operation_id] = path.removeprefix("/api/1/")
    return found


async def pages(api: Api, path: str) -> AsyncIterator[httpx.Response]:
    """Yield the answers that the links of a list lead through."""
    while path:
        answer = await api.client.get(path)
        accepted(answer)
        yield answer
        path = answer.links.get("next", {}).get("url", "").removeprefix("/api/1/")


@pytest.mark.parametrize("endpoint", LISTS, ids=lambda each: each.operation_id)
async def test_an_answer_says_whether_it_is_a_page_and_links_lead_through_all(
    stage: Stage, addresses: dict[str, str], endpoint: Endpoint
) -> None:
    path = addresses[endpoint.operation_id]
    found = [answer async for answer in pages(stage.api, path)]
    items = [item for answer in found for item in answer.json()]
    said = [answer.headers[LIST_HEADER] for answer in found]
    assert said == (["complete"] if len(found) == 1 else ["page"] * len(found))
    if endpoint.page_items is None:
        assert len(found) == 1, "a complete list"
    else:
        assert len(items) > PAGE_ROWS
        assert len(found) == -(-len(items) // endpoint.page_items)
    assert len(items) > 1 or endpoint.operation_id in FEW
    if endpoint not in LIMITED or not items:
        return
    size = min(max(len(items) - 1, 1), PAGE_ROWS_MAX)
    parts = [answer async for answer in pages(stage.api, f"{path}?limit={size}")]
    assert sorted(map(str, items)) == sorted(str(item) for answer in parts for item in answer.json())
    assert {answer.headers[LIST_HEADER] for answer in parts} == ({"page"} if len(parts) > 1 else {"complete"})
    assert (len(parts) > 1) == (len(items) > 1)


@pytest.mark.parametrize("endpoint", LISTS, ids=lambda each: each.operation_id)
async def test_the_client_follows_the_pages(
    stage: Stage, client: AsyncClient, addresses: dict[str, str], endpoint: Endpoint
) -> None:
    path = addresses[endpoint.operation_id]
    items = [item async for answer in pages(stage.api, path) for item in answer.json()]
    listed = getattr(client, endpoint.operation_id)
    arguments = [each for each in path.split("/") if is_id(each)]
    assert len(await listed(*arguments)) == len(items)
    if endpoint in LIMITED:
        assert len(await listed(*arguments, limit=1)) == min(len(items), 1), "a page, if it was asked for"


def test_the_description_says_of_each_list_whether_it_is_complete() -> None:
    described = document(ENDPOINTS)["paths"]
    for endpoint in LISTS:
        answer = described[endpoint.path]["get"]["responses"]["200"]
        assert answer["headers"][LIST_HEADER]["schema"]["enum"] == ["complete", "page"]
        words = {"Always in pages" in answer["description"], "omplete" in answer["description"]}
        assert words == {True, False}
        assert ("Always in pages" in answer["description"]) == (endpoint.page_items is not None)
        assert ("Link" in answer["headers"]) == (endpoint in LIMITED)


async def test_a_part_of_a_list_is_called_a_page(stage: Stage, addresses: dict[str, str]) -> None:
    log = addresses["read_log"]
    for path in (f"{log}?tail=1", f"{addresses['list_organizations']}?after={'0' * 24}"):
        assert (await stage.api.client.get(path)).headers[LIST_HEADER] == "page"
    lines: dict[str, Any] = {"accept": "application/x-ndjson"}
    assert (await stage.api.client.get(f"{log}?limit=1", headers=lines)).headers[LIST_HEADER] == "page"
    assert (await stage.api.client.get(log, headers=lines)).headers[LIST_HEADER] == "complete"
