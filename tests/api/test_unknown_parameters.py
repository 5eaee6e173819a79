"""Parameters of a query that an endpoint doesn't declare: refused, or ignored with a warning (decision 0163)."""

import json
import re
from functools import partial

import httpx
import msgspec
import pytest

from launchbay.web.openapi import document
from launchbay.web.routing import Endpoint
from tests.support.cases import each_holds
from tests.support.served import ENDPOINTS
from tests.support.service import UNKNOWN, Api, accepted, refused

_PARAMETER = re.compile(r"\{[a-zA-Z]+\}")
OWN = [each for each in ENDPOINTS if each.extension and not each.public]
OTHERS = [each for each in ENDPOINTS if each not in OWN]


async def _asked(api: Api, endpoint: Endpoint, query: str) -> httpx.Response:
    address = api.client.base_url.join(f"{_PARAMETER.sub(UNKNOWN, endpoint.path)}?{query}")
    return await api.client.request(endpoint.method, address)


async def test_own_endpoints_refuse_an_unknown_parameter_and_name_the_nearest(api: Api) -> None:
    await each_holds(
        partial(_refuses_and_names_the_nearest, api), ((each,) for each in OWN), named=lambda each: each.operation_id
    )


async def _refuses_and_names_the_nearest(api: Api, endpoint: Endpoint) -> None:
    declared = [] if endpoint.query is None else list(endpoint.query.__struct_encode_fields__)
    name = declared[0] + "z" if declared else "statuss"
    answer = await _asked(api, endpoint, f"{name}=Failed")
    assert (answer.status_code, name in answer.text) == (400, True), answer.text
    if declared:
        assert f"Did you mean '{declared[0]}'?" in answer.text
    if not endpoint.field_errors:
        refused(answer, 400, "InvalidQuery")


async def test_own_endpoints_refuse_a_parameter_that_is_given_twice(api: Api) -> None:
    path = f"organizations/{api.organization}/jobs?status=Failed&status=Executing"
    assert "'status' is given 2 times" in refused(await api.get(path), 400, "InvalidQuery")


async def test_established_and_public_endpoints_ignore_it(api: Api) -> None:
    await each_holds(partial(_ignores_it, api), ((each,) for each in OTHERS), named=lambda each: each.operation_id)


async def _ignores_it(api: Api, endpoint: Endpoint) -> None:
    answer = await _asked(api, endpoint, "statuss=Failed")
    assert "InvalidQuery" not in answer.text


async def test_established_endpoints_warn_of_what_they_ignore(api: Api) -> None:
    application = await api.application()
    for path in (
        "organizations",  # in one piece
        f"applications/{application}/instances",  # a stream
        f"applications/{application}/revisions",
        f"environments/{api.environment}",  # YAML
    ):
        plain = await api.client.get(f"{path}")
        answer = await api.client.get(f"{path}?statuss=Failed&_=17")
        assert (answer.status_code, answer.content) == (200, plain.content)
        sentences = json.loads(answer.headers["launchbay-warnings"])
        assert [each.split("'")[1] for each in sentences] == ["statuss", "_"]
        assert all(each.endswith("It was ignored.") for each in sentences)
        assert answer.headers.get("etag") == plain.headers.get("etag"), "the object is the same"
        assert "launchbay-warnings" not in plain.headers
    near = await api.client.get(f"applications/{application}/instances?statuss=Failed")
    assert "Did you mean 'status'?" in near.headers["launchbay-warnings"]


async def test_changes_of_established_endpoints_warn_too(api: Api) -> None:
    application = await api.application()
    answer = await api.client.post(f"applications/{application}/launch?ifExist=fail&include=warnings", json={})
    assert "Did you mean 'ifExists'?" in answer.headers["launchbay-warnings"]
    assert "'ifExist' is unknown" in accepted(answer)["warnings"][0]


def test_the_description_says_for_each_operation_what_happens_to_them() -> None:
    described = document(ENDPOINTS)["paths"]
    for endpoint in ENDPOINTS:
        operation = described[endpoint.path][endpoint.method.lower()]
        refuses = endpoint in OWN
        assert operation["x-unknown-parameters"] == ("refused" if refuses else "ignored with a warning")
        assert not refuses or "400" in operation["responses"]
        names = {each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"}
        assert names == set(() if endpoint.query is None else endpoint.query.__struct_encode_fields__)


@pytest.mark.features("bulk")
async def test_a_selection_of_a_bulk_act_needs_a_filter_or_all(api: Api) -> None:
    path = f"organizations/{api.organization}/bulk"
    for preview in (False, True):
        body = {"act": "destroy", "preview": preview}
        assert "all: true" in refused(await api.post(path, {**body, "select": {}}), 400, "NothingChosen")
        both = {"all": True, "status": "Failed"}
        refused(await api.post(path, {**body, "select": both}), 400, "InvalidFilter")
        refused(await api.post(path, {**body, "select": {"all": False}}), 400, "NothingChosen")
    change = {"act": "destroy", "select": {}}
    refused(await api.post(f"organizations/{api.organization}/change-sets", change), 400, "NothingChosen")
    schedule = {"name": "every", "cron": "0 0 1 1 *", "bulk": {"act": "destroy", "select": {}}}
    refused(await api.post(f"organizations/{api.organization}/recurring-schedules", schedule), 400, "NothingChosen")
    await api.launch(await api.application())
    shown = accepted(await api.post(path, {"act": "destroy", "preview": True, "select": {"all": True}}))
    assert sum(msgspec.to_builtins(shown["counts"]).values()) > 0
