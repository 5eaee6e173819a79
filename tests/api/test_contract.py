"""What goes over the wire: exactly the fields, content types and statuses of the reference (§2, §4)."""

import re
from typing import Any

import pytest

from launchbay.ids import is_id, new_id
from tests.support.manifests import TYPED, WORKFLOWS
from tests.support.served import ENDPOINTS
from tests.support.service import ANSWERS, UNKNOWN, YAML, Api, Ids

JSON_HEADER = b"application/json"


@pytest.fixture(scope="module")
async def ids(api: Api) -> Ids:
    instance = await api.running(WORKFLOWS, parameters={"label": "x"})
    document, revision = await api.document(instance), new_id()
    async with api.database.transaction() as connection:
        statement = "INSERT INTO revisions (id, application_id, name, version) VALUES (%s, %s, 'stable', 2)"
        await connection.execute(statement, [revision, document["applicationId"]])
        await connection.execute("UPDATE instances SET revision_id = %s WHERE id = %s", [revision, instance])
    return {
        "organization": api.organization,
        "environment": api.environment,
        "application": document["applicationId"],
        "other": await api.application(TYPED),
        "instance": instance,
        "revision": revision,
    }


@pytest.mark.parametrize("operation", ANSWERS)
async def test_success_is_200_with_exactly_the_keys_and_the_content_type_of_the_reference(
    api: Api, ids: Ids, operation: str
) -> None:
    ask, keys = ANSWERS[operation]
    answer = await ask(api, ids)
    if operation == "run_workflow":
        await api.settled(ids["instance"])
    assert answer.status_code == 200, answer.text
    assert [value for name, value in answer.headers.raw if name.lower() == b"content-type"] == [JSON_HEADER]
    document = answer.json()
    if isinstance(keys, list):
        assert isinstance(document, list)
        assert document, "an empty list shows no keys"
        assert [set(item) for item in document] == keys * len(document)
        items = document
    else:
        assert isinstance(document, dict)
        assert set(document) == keys
        items = [document]
    for item in items:
        for name, value in item.items():
            if name in {"id", "ownerId", "applicationId", "environmentId", "environment", "application"}:
                assert is_id(value), (name, value)


def test_the_paths_are_those_of_the_reference() -> None:
    table = {row.operation_id: (row.method, row.path.removeprefix("/api/1/"), row.extension) for row in ENDPOINTS}
    assert {operation: table[operation] for operation in ANSWERS} == {
        "list_organizations": ("GET", "organizations", False),
        "list_applications": ("GET", "organizations/{orgId}/applications", False),
        "create_application": ("POST", "organizations/{orgId}/applications", False),
        "replace_manifest": ("PUT", "applications/{appId}/manifest", False),
        "list_revisions": ("GET", "applications/{appId}/revisions", False),
        "launch_application": ("POST", "applications/{appId}/launch", False),
        "list_environment_instances": ("GET", "environments/{envId}/instances", False),
        "list_application_instances": ("GET", "applications/{appId}/instances", False),
        "list_revision_instances": ("GET", "revisions/{revId}/instances", False),
        "read_instance": ("GET", "instances/{id}", False),
        "put_user_data": ("PUT", "instances/{id}/userData", False),
        "run_workflow": ("POST", "instances/{id}/{workflow}", False),
        "schedule_workflow": ("POST", "instances/{id}/{workflow}/schedule", False),
        "list_schedules": ("GET", "instances/{id}/schedules", False),
        "reschedule_workflow": ("POST", "instances/{id}/{workflow}/reschedule", False),
        "delete_instance": ("DELETE", "instances/{id}", False),
    }


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "instances/{UNKNOWN}", 404),
        ("GET", "nowhere/at/all", 404),
        ("POST", "organizations", None),
        ("PATCH", "instances/{UNKNOWN}", 405),
        ("POST", "applications/{UNKNOWN}/launch", 404),
    ],
)
async def test_every_error_has_the_one_form(api: Api, method: str, path: str, status: int | None) -> None:
    content = b"{}" if method == "POST" else b""
    headers = {"Content-Type": "application/json"} if content else {}
    answer = await api.client.request(method, path.replace("{UNKNOWN}", UNKNOWN), content=content, headers=headers)
    assert answer.status_code == status or (status is None and answer.status_code >= 400)
    assert [value for name, value in answer.headers.raw if name.lower() == b"content-type"] == [JSON_HEADER]
    document = answer.json()
    assert set(document) == {"errors", "code", "requestId", "docs"}
    assert re.fullmatch(r"[A-Z][A-Za-z]+", document["code"])
    assert is_id(document["requestId"])
    assert document["requestId"] == answer.headers["x-request-id"]


async def test_an_invalid_manifest_adds_its_findings(api: Api, ids: Ids) -> None:
    answer = await api.put_yaml(f"applications/{ids['application']}/manifest", "application: {components: {x: }}")
    assert set(answer.json()) == {"errors", "code", "requestId", "findings", "docs"}
    finding: dict[str, Any]
    for finding in answer.json()["findings"]:
        assert set(finding) == {"message", "line", "column", "code"}


@pytest.mark.parametrize("accept", ["*/*", "text/html", "application/x-yaml", "nonsense", "application/json;q=0", ""])
async def test_accept_never_matters(api: Api, ids: Ids, accept: str) -> None:
    for path in ("organizations", f"organizations/{ids['organization']}/applications", f"instances/{UNKNOWN}"):
        answer = await api.client.get(path, headers={"Accept": accept})
        assert answer.status_code in {200, 404}
        assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("query", ["?", "?x", "?x=1&x=2&y", "?x[]=1&x[a]=2", "?force=1", "?status=Running"])
async def test_query_parameters_that_an_endpoint_does_not_know_are_ignored(api: Api, ids: Ids, query: str) -> None:
    assert (await api.get(f"organizations{query}")).status_code == 200
    assert (await api.get(f"applications/{ids['application']}/revisions{query}")).status_code == 200
    answer = await api.send("PUT", f"applications/{ids['application']}/manifest{query}", b"{}", **YAML)
    assert answer.status_code == 200
