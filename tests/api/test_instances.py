"""DELETE with force=1 while much is going on: what the broken-off work had done is known, and nothing is left."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from launchbay.ids import is_id, new_id
from launchbay.machines.registry import Providers
from tests.support.applications import environment, offer
from tests.support.databases import Databases, row_of
from tests.support.eventually import eventually
from tests.support.machines import Lab
from tests.support.manifests import FAILING_EARLY, FAILING_LATE, PAUSING, WORKFLOWS
from tests.support.network import Wire
from tests.support.service import UNKNOWN, Api, accepted, fresh_name, refused, running_api

TABLES = ("instances", "jobs", "steps", "log_lines", "schedules")


async def records(api: Api, instance: str) -> dict[str, int]:
    """Return how many rows of each table belong to the instance."""
    of = {"instances": "id", "jobs": "instance_id", "log_lines": "instance_id", "schedules": "instance_id"}
    counts = {}
    async with api.database.connection() as connection:
        for table, column in of.items():
            text = f"SELECT count(*) FROM {table} WHERE {column} = %s"
            row = await (await connection.execute(text.encode(), [instance])).fetchone()
            assert row is not None
            counts[table] = row[0]
        text = "SELECT count(*) FROM steps WHERE NOT EXISTS (SELECT FROM jobs WHERE jobs.id = steps.job_id)"
        row = await (await connection.execute(text.encode())).fetchone()
        assert row is not None
        counts["steps"] = row[0]
    return counts


async def pausing(api: Api) -> str:
    """Return an instance in the middle of a long step."""
    instance = await api.running(PAUSING)
    accepted(await api.post(f"instances/{instance}/pause", {"seconds": "600"}))
    await eventually(
        lambda: api.document(instance), lambda found: found["workflow"]["steps"][0]["status"] == "Executing"
    )
    return instance


async def test_a_destroyed_instance_is_deleted_with_all_its_records(api: Api) -> None:
    instance = await api.running(PAUSING)
    await api.run(instance, "pause", seconds="0")
    document = await api.run(instance, "destroy")
    assert accepted(await api.delete(f"instances/{instance}")) == {}
    refused(await api.get(f"instances/{instance}"), 404, "NotFound")
    refused(await api.delete(f"instances/{instance}"), 404, "NotFound")
    assert accepted(await api.get(f"applications/{document['applicationId']}/instances")) == []
    assert await records(api, instance) == dict.fromkeys(TABLES, 0)


@pytest.mark.parametrize("force", ["", "?force=0", "?force="])
async def test_an_active_instance_is_not_deleted_without_force(api: Api, force: str) -> None:
    instance = await api.running(None)
    answer = await api.delete(f"instances/{instance}{force}")
    if force == "?force=":
        refused(answer, 400)
    else:
        assert "force the deletion" in refused(answer, 400, "InstanceActive")
    assert (await api.document(instance))["status"] == "Running"


async def test_a_running_instance_is_destroyed_and_deleted_by_force(api: Api) -> None:
    instance = await api.running("launch: {steps: []}\ndestroy: {steps: [{s: {action: wait, parameters: {delay: 1}}}]}")
    assert accepted(await api.delete(f"instances/{instance}?force=1")) == {}
    document = await api.document(instance)
    assert (document["status"], document["workflow"]["name"]) == ("Destroying", "destroy")
    await api.gone(instance)
    assert await records(api, instance) == dict.fromkeys(TABLES, 0)


async def test_a_step_in_the_middle_of_a_wait_is_interrupted_by_force(api: Api) -> None:
    instance = await pausing(api)
    begin_s = time.monotonic()
    assert accepted(await api.delete(f"instances/{instance}?force=1")) == {}
    answer = await api.get(f"instances/{instance}")
    if answer.status_code == 200:
        document = answer.json()
        assert document["status"] == "Destroying"
        assert [job["name"] for job in document["workflowHistory"]] == ["destroy", "pause", "launch"]
        assert document["workflowHistory"][1]["status"] == "Failed"
        assert "force" in document["workflowHistory"][1]["errorMessage"]
    await api.gone(instance)
    assert time.monotonic() - begin_s < 5
    assert await records(api, instance) == dict.fromkeys(TABLES, 0)


async def test_a_launch_that_is_queued_or_under_way_is_given_up_by_force(api: Api) -> None:
    application = await api.application("launch: {steps: [{s: {action: wait, parameters: {delay: 600}}}]}")
    instances = [await api.launch(application) for _ in range(3)]
    for instance in instances:
        refused(await api.delete(f"instances/{instance}"), 400, "InstanceActive")
        accepted(await api.delete(f"instances/{instance}?force=1"))
    for instance in instances:
        await api.gone(instance)
        assert await records(api, instance) == dict.fromkeys(TABLES, 0)


async def test_a_deletion_that_is_asked_for_again_and_again_still_comes_to_its_end(api: Api) -> None:
    instance = await api.running("launch: {steps: []}\ndestroy: {steps: [{s: {action: wait, parameters: {delay: 1}}}]}")
    answer = await eventually(
        lambda: api.delete(f"instances/{instance}?force=1"), lambda answer: answer.status_code != 200
    )
    refused(answer, 404, "NotFound")


async def test_a_destroy_under_way_is_replaced_by_force(api: Api) -> None:
    instance = await api.running(
        "launch: {steps: []}\ndestroy: {steps: [{s: {action: wait, parameters: {delay: 0.5}}}]}"
    )
    accepted(await api.post(f"instances/{instance}/destroy", {}))
    accepted(await api.delete(f"instances/{instance}?force=1"))
    await api.gone(instance)


async def test_a_forced_deletion_goes_through_when_destroy_fails(api: Api) -> None:
    instance = await api.running(
        "launch: {steps: [{s: {action: wait, parameters: {delay: 0}}}]}\n"
        "destroy: {steps: [{s: {action: restcall, parameters: {command: 'not a URL'}}}]}"
    )
    assert (await api.run(instance, "destroy"))["status"] == "Failed"
    refused(await api.delete(f"instances/{instance}"), 400, "InstanceActive")
    accepted(await api.delete(f"instances/{instance}?force=1"))
    await api.gone(instance)


@pytest.mark.parametrize("manifest", [FAILING_EARLY, FAILING_LATE], ids=["no effect", "the effect failed"])
async def test_an_instance_that_failed_before_any_resource_was_made_is_not_active(api: Api, manifest: str) -> None:
    instance = await api.launch(await api.application(manifest))
    assert (await api.settled(instance))["status"] == "Failed"
    assert accepted(await api.delete(f"instances/{instance}")) == {}
    refused(await api.get(f"instances/{instance}"), 404)


async def test_an_instance_that_failed_after_an_effect_is_active(api: Api) -> None:
    step = "{action: restcall, precedingPhases: [first], parameters: {command: 'not a URL'}}"
    instance = await api.launch(
        await api.application(f"launch: {{steps: [first: {{action: wait, parameters: {{delay: 0}}}}, second: {step}]}}")
    )
    assert (await api.settled(instance))["status"] == "Failed"
    refused(await api.delete(f"instances/{instance}"), 400, "InstanceActive")
    await api.run(instance, "destroy")
    accepted(await api.delete(f"instances/{instance}"))


@pytest.mark.parametrize("force", ["", "?force=1"])
async def test_an_instance_of_a_submodule_goes_only_with_its_parent(api: Api, force: str) -> None:
    parent, child = await api.running(None), await api.running(None)
    await api.run(child, "destroy")
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE instances SET parent_id = %s WHERE id = %s", [parent, child])
    assert parent in refused(await api.delete(f"instances/{child}{force}"), 400, "SubmoduleInstance")
    assert (await api.document(child))["status"] == "Destroyed"


async def test_a_destroyed_instance_can_be_deleted_by_force_too(api: Api) -> None:
    instance = await api.running(None)
    await api.run(instance, "destroy")
    assert accepted(await api.delete(f"instances/{instance}?force=1")) == {}
    refused(await api.get(f"instances/{instance}"), 404)


@pytest.mark.parametrize("force", ["2", "-1", "true", "yes", "1.5", "01x"])
async def test_another_force_is_400(api: Api, force: str) -> None:
    instance = await api.running(None)
    assert "force" in refused(await api.delete(f"instances/{instance}?force={force}"), 400)
    assert (await api.document(instance))["status"] == "Running"


async def test_pending_schedules_go_with_the_instance(api: Api) -> None:
    instance = await api.running(PAUSING)
    accepted(await api.post(f"instances/{instance}/pause/schedule", {"interval": 300}))
    accepted(await api.delete(f"instances/{instance}?force=1"))
    await api.gone(instance)
    other = await api.running(PAUSING)
    accepted(await api.post(f"instances/{other}/pause/schedule", {"interval": 300}))
    await api.until(other, "Executing")  # its schedule came later, and was due later
    assert await records(api, instance) == dict.fromkeys(TABLES, 0)


async def test_of_many_deletions_at_once_none_breaks(api: Api) -> None:
    instance = await api.running(None)
    await api.run(instance, "destroy")
    answers = await asyncio.gather(*(api.delete(f"instances/{instance}") for _ in range(10)))
    assert {answer.status_code for answer in answers} <= {200, 404}
    busy = await pausing(api)
    answers = await asyncio.gather(*(api.delete(f"instances/{busy}?force=1") for _ in range(10)))
    assert {answer.status_code for answer in answers} <= {200, 404}
    await api.gone(busy)


async def test_a_json_body_on_delete_does_no_harm(api: Api) -> None:
    instance = await api.running(None)
    await api.run(instance, "destroy")
    accepted(await api.delete(f"instances/{instance}", {"force": 1}))


@pytest.mark.parametrize(
    ("entry", "status"),
    [
        ("DeleteInstance: [/applications/*]", 200),
        ("EditInstance: [/*]", 403),
        ("RunInstanceWorkflow: [/*]", 403),
        ("DeleteInstance: [/applications/*/instances/nobody]", 403),
    ],
)
async def test_it_needs_the_permission_to_delete(api: Api, entry: str, status: int) -> None:
    instance = await api.running(None)
    await api.run(instance, "destroy")
    member = await api.member(entry)
    assert (await member.delete(f"instances/{instance}")).status_code == status


PATIENCE_S = 20.0


@pytest.fixture(scope="module")
async def bay(databases: Databases) -> AsyncIterator[tuple[Api, Lab]]:
    """A service whose machines stand in the lab, and whose forced destroys are soon broken off."""
    lab, url = Lab(), databases.create()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Providers, "load", lambda *_: Providers([("tests", lab)], "lab"))
        async with running_api(url, destroy_timeout_s=1.0) as api:
            yield api, lab
    databases.drop(url)


async def deleted(api: Api, instance: str) -> None:
    accepted(await api.delete(f"instances/{instance}?force=1"))
    await api.gone(instance)


async def until_made(api: Api, lab: Lab) -> None:
    """Wait until the only machine stands and its step is recorded."""
    await eventually(lambda: lab.standing, within_s=PATIENCE_S)
    [(_, instance, _)] = lab.standing.values()
    statement = "SELECT count(*) FROM steps JOIN jobs ON jobs.id = job_id WHERE instance_id = %s AND outputs <> ''"
    async with api.database.connection() as connection:
        await eventually(lambda: row_of(connection, statement, instance), lambda found: found == (1,))


HOST = """
application:
  interfaces: {out: {made: bind(host#out.made)}}
  components:
    host:
      type: workflow.Instance
      interfaces: {out: {made: publish-signal(string)}}
      configuration:
        configuration.workflows:
          launch:
            steps: [{make: {action: provisionVms, parameters: {roleName: web, targetQuantity: 2}}}]
            return: {made: {value: made}}
          destroy:
            steps: [{hang: {action: wait, parameters: {delay: 60}}}]
"""
OVER = """
application:
  interfaces: {out: {made: bind(child#out.made)}}
  components:
    child:
      type: reference.Submodule
      configuration: {__locator.application-id: LOCATOR}
      interfaces: {out: {made: publish-signal(string)}}
"""


@pytest.mark.slow
async def test_no_machine_of_a_submodule_is_left_when_the_destroy_is_broken_off(bay: tuple[Api, Lab]) -> None:
    api, lab = bay
    bottom, middle = fresh_name("bottom"), fresh_name("middle")
    await api.application(HOST, bottom)
    await api.application(OVER.replace("LOCATOR", bottom), middle)
    instance = await api.running(OVER.replace("LOCATOR", middle))
    assert len(lab.standing) == 2
    await deleted(api, instance)
    assert lab.standing == {}


HALF_LAUNCHED = """
application:
  components:
    first:
      type: workflow.Instance
      configuration:
        configuration.workflows:
          launch:
            steps: [{make: {action: provisionVms, parameters: {roleName: web}}}]
            return: {made: {value: what was made}}
          destroy:
            steps: [{tell: {action: execrun, parameters: {roles: [web], command: ["echo {$.made}"]}}}]
    second:
      type: workflow.Instance
      configuration:
        configuration.workflows:
          launch: {steps: [{hang: {action: wait, parameters: {delay: 60}}}]}
"""


async def test_the_destroy_knows_what_the_launch_had_done_that_it_put_an_end_to(bay: tuple[Api, Lab]) -> None:
    api, lab = bay
    instance = await api.launch(await api.application(HALF_LAUNCHED))
    await until_made(api, lab)
    await deleted(api, instance)
    assert lab.ran[-1][1] == "echo what was made"
    assert lab.standing == {}


async def test_a_launch_of_submodules_that_is_broken_off_leaves_nothing(bay: tuple[Api, Lab]) -> None:
    api, lab = bay
    name = fresh_name("half")
    await api.application(HALF_LAUNCHED, name)
    text = OVER.replace("LOCATOR", name).replace("{out: {made: publish-signal(string)}}", "{}")
    instance = await api.launch(await api.application(text.replace("{out: {made: bind(child#out.made)}}", "{}")))
    await until_made(api, lab)
    await deleted(api, instance)
    assert lab.ran[-1][1] == "echo what was made"
    assert lab.standing == {}


POOL = """
application:
  interfaces: {pool: {make: bind(pool#pool.make), use: bind(pool#pool.use), size: bind(pool#pool.size)}}
  components:
    pool:
      type: workflow.Instance
      interfaces: {pool: {make: receive-command(), use: receive-command(), size: publish-signal(int)}}
      configuration:
        configuration.workflows:
          launch: {steps: [], return: {size: {value: 0}}}
          make:
            steps:
              - make: {action: provisionVms, parameters: {roleName: pool}}
              - hang: {action: wait, precedingPhases: [make], parameters: {delay: 60}}
          use: {steps: [{use: {action: execrun, parameters: {roles: [pool], command: [uptime]}}}]}
"""
USER = """
application:
  bindings: [[user, pool]]
  components:
    pool:
      type: reference.Service
      interfaces: {pool: {make: receive-command(), size: publish-signal(int)}}
    user:
      type: workflow.Instance
      interfaces: {pool: {make: send-command()}}
      configuration:
        configuration.workflows: {launch: {steps: [{ask: {action: pool.make}}]}}
"""


async def test_what_a_service_had_done_for_a_caller_that_is_gone_stays_known_to_it(bay: tuple[Api, Lab]) -> None:
    api, lab = bay
    where = await environment(api)
    service = await api.running(POOL)
    await offer(api, service, where)
    caller = await api.launch(await api.application(USER), environmentId=where)
    await until_made(api, lab)
    await deleted(api, caller)
    document = await api.settled(service)
    assert document["status"] == "Running"
    assert document["workflowHistory"][0]["status"] == "Failed"
    document = await api.run(service, "pool.use")
    assert document["workflowHistory"][0]["status"] == "Succeeded", document["errorMessage"]
    assert (await api.run(service, "destroy"))["status"] == "Destroyed"
    assert lab.standing == {}


ROWS = 5_000


@dataclass(frozen=True)
class Many:
    """An application, an environment and a revision with many instances."""

    paths: dict[str, str]
    application: str
    environment: str
    revision: str


@pytest.fixture(scope="module")
async def many(api: Api) -> Many:
    application, environment, revision = await api.application(), await api.offer(), new_id()
    async with api.database.transaction() as connection:
        statement = "INSERT INTO revisions (id, application_id, name, version) VALUES (%s, %s, 'stable', 1)"
        await connection.execute(statement, [revision, application])
        await connection.execute(
            """INSERT INTO instances (id, organization_id, application_id, environment_id, revision_id, version, name,
                                      owner_id, status)
               SELECT 'aaaaaaaa' || lpad(to_hex(n), 16, '0'), %s, %s, %s, %s, 1, 'instance ' || n %% 10, %s,
                      CASE WHEN n %% 4 = 0 THEN 'Failed' ELSE 'Running' END
               FROM generate_series(0, %s - 1) AS n""",
            [api.organization, application, environment, revision, new_id(), ROWS],
        )
    of = {"applications": application, "environments": environment, "revisions": revision}
    return Many({kind: f"{kind}/{of_id}/instances" for kind, of_id in of.items()}, application, environment, revision)


@pytest.mark.parametrize("kind", ["applications", "environments", "revisions"])
async def test_a_long_list_is_whole_in_order_and_in_exactly_the_fields_of_the_reference(
    api: Api, many: Many, kind: str
) -> None:
    rows = accepted(await api.get(many.paths[kind]))
    assert len(rows) == ROWS
    assert rows == sorted(rows, key=lambda row: row["id"])
    assert {frozenset(row) for row in rows} == {
        frozenset({"id", "name", "environment", "application", "revision", "status"})
    }
    assert rows[8] == {
        "id": "aaaaaaaa0000000000000008",
        "name": "instance 8",
        "environment": many.environment,
        "application": many.application,
        "revision": many.revision,
        "status": "Failed",
    }


async def test_a_long_list_comes_in_pieces(port: int, api: Api, many: Many) -> None:
    wire = await Wire.open(port)
    authorization = api.client.headers["authorization"]
    request = (
        f"GET /api/1/{many.paths['applications']} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {authorization}\r\n\r\n"
    )
    await wire.send(request.encode())
    head = (await wire.reader.readuntil(b"\r\n\r\n")).lower()
    assert b"transfer-encoding: chunked" in head
    assert b"content-type: application/json\r\n" in head
    pieces = 0
    while size := int((await wire.reader.readuntil(b"\r\n")), 16):
        await wire.reader.readexactly(size + 2)
        pieces += 1
    assert pieces > 2
    wire.close()


async def test_an_empty_list_is_an_empty_array(api: Api) -> None:
    application, environment = await api.application(), await api.offer()
    assert accepted(await api.get(f"applications/{application}/instances")) == []
    assert accepted(await api.get(f"environments/{environment}/instances")) == []


@pytest.mark.parametrize("kind", ["applications", "environments", "revisions"])
async def test_pages_lead_through_the_whole_list(api: Api, many: Many, kind: str) -> None:
    path, seen, pages = f"{many.paths[kind]}?limit=2000", list[str](), 0
    while True:
        answer = await api.get(path)
        rows = accepted(answer)
        seen.extend(row["id"] for row in rows)
        pages += 1
        if "link" not in answer.headers:
            break
        link = re.fullmatch(r'<([^>]+)>; rel="next"', answer.headers["link"])
        assert link is not None
        path = link[1].removeprefix("/api/1/")
    assert pages == 3
    assert len(seen) == len(set(seen)) == ROWS


async def test_a_page_that_holds_the_rest_has_no_link(api: Api, many: Many) -> None:
    last = "aaaaaaaa" + f"{ROWS - 11:016x}"
    for limit, is_last in ((10, True), (11, True), (9, False)):
        answer = await api.get(many.paths["applications"], limit=limit, after=last)
        assert len(accepted(answer)) == min(limit, 10)
        assert ("link" not in answer.headers) == is_last


async def test_filters_apply_together_and_stay_in_the_link(api: Api, many: Many) -> None:
    path = many.paths["environments"]
    failed = accepted(await api.get(path, status="Failed"))
    assert len(failed) == ROWS / 4
    assert {row["status"] for row in failed} == {"Failed"}
    both = accepted(await api.get(path, status="Failed", name="instance 8"))
    assert len(both) == ROWS / 20
    assert {row["name"] for row in both} == {"instance 8"}
    answer = await api.get(path, status="Failed", name="instance 8", limit=3)
    assert accepted(answer) == both[:3]
    following = answer.headers["link"].partition(">")[0].removeprefix("</api/1/")
    assert accepted(await api.get(following)) == both[3:6]


async def test_what_no_instance_has_filters_all_of_them_out(api: Api, many: Many) -> None:
    for query in ({"status": "Sleeping"}, {"status": "running"}, {"name": "instance"}, {"name": ""}):
        assert accepted(await api.get(many.paths["applications"], **query)) == []


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": -1}, "limit"),
        ({"limit": "ten"}, "limit"),
        ({"limit": 10**9}, "limit"),
        ({"limit": 10**30}, "limit"),
        ({"after": "x"}, "after"),
        ({"limit": 5, "after": "' OR 1=1"}, "after"),
        ({"name": "\0"}, "NUL"),
    ],
)
async def test_a_query_that_makes_no_sense_is_400_and_named(
    api: Api, many: Many, query: dict[str, object], named: str
) -> None:
    assert named in refused(await api.get(many.paths["applications"], **query), 400)


async def test_unknown_query_parameters_are_ignored(api: Api) -> None:
    application = await api.application()
    instance = await api.launch(application)
    rows = accepted(await api.get(f"applications/{application}/instances?foo=1&bar&_=17&limit=10"))
    assert [row["id"] for row in rows] == [instance]


async def test_an_instance_is_in_the_lists_of_its_application_and_environment(api: Api) -> None:
    application, environment = await api.application(WORKFLOWS), await api.offer()
    instance = await api.launch(application, environmentId=environment, instanceName="one", label="x")
    for path in (f"applications/{application}/instances", f"environments/{environment}/instances"):
        [row] = accepted(await api.get(path))
        assert row["id"] == instance
        assert (row["name"], row["application"], row["environment"]) == ("one", application, environment)
        assert all(is_id(row[name]) for name in ("id", "application", "environment", "revision"))
    await api.settled(instance)
    assert [row["status"] for row in accepted(await api.get(f"applications/{application}/instances"))] == ["Running"]


async def test_destroyed_instances_stay_listed(api: Api) -> None:
    instance = await api.running(None)
    document = await api.run(instance, "destroy")
    [row] = accepted(await api.get(f"applications/{document['applicationId']}/instances"))
    assert (row["id"], row["status"]) == (instance, "Destroyed")


@pytest.mark.parametrize("kind", ["applications", "environments", "revisions"])
async def test_head_has_the_status_of_get(api: Api, many: Many, kind: str) -> None:
    outsider, _, _ = await api.outsider()
    nobody = api.caller(None)
    for caller, path, status in (
        (api, many.paths[kind], 200),
        (api, f"{kind}/{UNKNOWN}/instances", 404),
        (outsider, many.paths[kind], 403),
        (nobody, many.paths[kind], 401),
        (api, f"{many.paths[kind]}?limit=0", 400),
    ):
        get, head = await caller.get(path), await caller.head(path)
        assert (get.status_code, head.status_code) == (status, status)
        assert head.headers["content-type"] == get.headers["content-type"]


async def test_a_client_that_goes_away_frees_the_connection_to_the_database(port: int, api: Api, many: Many) -> None:
    authorization = api.client.headers["authorization"]
    request = (
        f"GET /api/1/{many.paths['applications']} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {authorization}\r\n\r\n"
    )
    for _ in range(2 * api.settings.database_connections):
        wire = await Wire.open(port)
        await wire.send(request.encode())
        await wire.reader.readuntil(b"\r\n\r\n")
        wire.close()
    assert len(accepted(await api.get(many.paths["applications"], limit=1))) == 1


async def test_a_reader_of_one_instance_sees_no_other_in_any_list(api: Api) -> None:
    first = await api.running(PAUSING)
    application = (await api.document(first))["applicationId"]
    other = await api.launch(application)
    await api.settled(other)
    reader = await api.member(f"Read: [/applications/{application}/instances/{first}]")
    assert accepted(await reader.get(f"instances/{first}"))["id"] == first
    refused(await reader.get(f"instances/{other}"), 403, "NotAllowed")
    for path in (f"applications/{application}/instances", f"environments/{api.environment}/instances"):
        answer = await reader.get(path)
        refused(answer, 403, "NotAllowed")
        assert other not in answer.text
