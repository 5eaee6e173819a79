"""Lists of instances: fields, filters, pages, long lists (reference §4; api-decisions "Wire" 4 and 9)."""

import re
from dataclasses import dataclass

import pytest

from launchbay.ids import is_id, new_id
from tests.api.manifests import WORKFLOWS
from tests.api.running import UNKNOWN, Api, accepted, refused
from tests.web.wire import Wire

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
    request = f"GET /api/1/{many.paths['applications']} HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\n\r\n"
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
        ({"after": "A" * 24}, "after"),
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
        assert row["revision"] is None
        assert (row["name"], row["application"], row["environment"]) == ("one", application, environment)
        assert all(is_id(row[name]) for name in ("id", "application", "environment"))
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
    request = f"GET /api/1/{many.paths['applications']} HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\n\r\n"
    for _ in range(2 * api.settings.database_connections):
        wire = await Wire.open(port)
        await wire.send(request.encode())
        await wire.reader.readuntil(b"\r\n\r\n")
        wire.close()
    assert len(accepted(await api.get(many.paths["applications"], limit=1))) == 1
