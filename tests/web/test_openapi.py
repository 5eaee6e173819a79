"""The OpenAPI document: structure, references and agreement with the table."""

import importlib
import importlib.util
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest

from launchbay.web.openapi import document
from launchbay.web.requests import JsonBody
from launchbay.web.routing import Endpoint
from tests.support.routes import SAMPLES
from tests.support.served import ENDPOINTS

TABLES = {"product": ENDPOINTS, "samples": SAMPLES}


@pytest.fixture(params=list(TABLES))
def table(request: pytest.FixtureRequest) -> tuple[Endpoint, ...]:
    return TABLES[request.param]


@pytest.fixture
def described(table: tuple[Endpoint, ...]) -> dict[str, Any]:
    """The document as a client reads it."""
    decoded: dict[str, Any] = json.loads(msgspec.json.encode(document(table)))
    return decoded


def operations(described: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def test_every_endpoint_is_described_under_its_operation_id(
    table: tuple[Endpoint, ...], described: dict[str, Any]
) -> None:
    found = {(method, path): operation["operationId"] for method, path, operation in operations(described)}
    assert found == {(row.method, row.path): row.operation_id for row in table}


def test_every_answer_that_may_have_warnings_says_so(table: tuple[Endpoint, ...], described: dict[str, Any]) -> None:
    takes_json = {row.operation_id for row in table if isinstance(row.body, JsonBody)}
    for _, _, operation in operations(described):
        asks = any(each["name"] == "include" for each in operation.get("parameters", ()))
        says = "Launchbay-Warnings" in operation["responses"]["200"].get("headers", {})
        if asks or operation["operationId"] in takes_json:
            assert says, operation["operationId"]


def test_every_path_parameter_is_declared(described: dict[str, Any]) -> None:
    for _, path, operation in operations(described):
        declared = [p["name"] for p in operation.get("parameters", []) if p["in"] == "path"]
        assert declared == re.findall(r"\{(\w+)\}", path)


def test_every_reference_leads_somewhere(described: dict[str, Any]) -> None:
    for reference in re.findall(r'"\$ref": ?"#/([^"]+)"', json.dumps(described)):
        node = described
        for key in reference.split("/"):
            node = node[key]
        assert node


def test_every_error_status_has_a_body_with_an_example(described: dict[str, Any]) -> None:
    for _, _, operation in operations(described):
        assert {"200", "500", "503"} <= set(operation["responses"])
        for status, response in operation["responses"].items():
            assert response["description"]
            if status == "304":
                assert "content" not in response
            elif status != "200":
                content = response["content"]["application/json"]
                assert content["schema"]["$ref"]
                assert content["example"]


def test_statuses_follow_from_what_the_row_says() -> None:
    described = document(SAMPLES)
    run = described["paths"]["/api/1/things/{id}/{verb}"]["post"]
    assert list(run["responses"]) == ["200", "400", "401", "403", "404", "409", "412", "413", "429", "500", "503"]
    wheels = described["paths"]["/api/1/things/{id}/wheels"]["get"]
    assert list(wheels["responses"]) == ["200", "304", "401", "404", "429", "500", "503"]
    assert list(described["paths"]["/api/1/open"]["get"]["responses"]) == ["200", "429", "500", "503"]


def test_a_public_endpoint_asks_for_no_credentials_and_others_for_either_scheme() -> None:
    described = document(SAMPLES)
    assert described["paths"]["/api/1/open"]["get"]["security"] == []
    assert "security" not in described["paths"]["/api/1/things"]["get"]
    assert described["security"] == [{"basic": []}, {"bearer": []}]
    assert set(described["components"]["securitySchemes"]) == {"basic", "bearer"}


def test_bodies_queries_and_keys_are_described_from_their_types() -> None:
    described = document(SAMPLES)
    create = described["paths"]["/api/1/things"]["post"]
    assert create["requestBody"]["required"] is True
    assert create["requestBody"]["content"]["application/json"]["example"] == {"name": "cart"}
    assert described["components"]["schemas"]["Thing"]["properties"]["wheelCount"] == {"type": "integer", "default": 4}
    assert [p["name"] for p in create["parameters"]] == ["Idempotency-Key"]
    text = described["paths"]["/api/1/things/{id}/text"]["put"]
    assert list(text["requestBody"]["content"]) == list(text["responses"]["200"]["content"]) == ["application/x-yaml"]
    pages = described["paths"]["/api/1/pages"]["get"]["parameters"]
    assert [(p["name"], p["in"], p["required"]) for p in pages] == [
        ("limit", "query", False),
        ("after", "query", False),
        ("If-None-Match", "header", False),
        ("Prefer", "header", False),
    ]
    clone = described["paths"]["/api/1/things/{id}/clone"]["post"]
    assert clone["requestBody"]["required"] is False
    change = described["paths"]["/api/1/things/{id}"]["put"]
    assert change["responses"]["400"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/FieldErrors"
    }


async def test_the_document_is_served_to_anybody(client: httpx.AsyncClient) -> None:
    answer = await client.get("/api/1/openapi.json", headers={"Authorization": ""})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == json.loads(msgspec.json.encode(document(ENDPOINTS)))


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("openapi_spec_validator") is None, reason="openapi-spec-validator is not installed"
)
def test_the_document_is_valid_openapi(described: dict[str, Any]) -> None:
    importlib.import_module("openapi_spec_validator").validate(described)


def test_what_an_answer_made_is_linked_to_what_can_be_done_with_it() -> None:
    described = document(ENDPOINTS)
    paths = described["paths"]
    targets = {operation["operationId"]: path for _, path, operation in operations(described)}
    made = paths["/api/1/organizations/{orgId}/applications"]["post"]["responses"]["200"]["links"]
    assert made["launch_application"]["parameters"] == {"appId": "$response.body#/id"}
    launched = paths["/api/1/applications/{appId}/launch"]["post"]["responses"]["200"]["links"]
    assert launched["run_workflow"]["parameters"] == {"id": "$response.body#/id"}
    listed = paths["/api/1/instances/{id}/jobs"]["get"]["responses"]["200"]["links"]
    assert listed["read_job"]["parameters"] == {"id": "$request.path.id", "jobId": "$response.body#/0/id"}
    for _, _, operation in operations(described):
        for name, link in operation["responses"]["200"].get("links", {}).items():
            assert link["operationId"] == name
            assert set(link["parameters"]) <= set(re.findall(r"\{(\w+)\}", targets[name]))
