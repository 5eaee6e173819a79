"""What old clients send although the reference doesn't say that it is allowed: ids in upper case, unknown fields."""

import json
from typing import Any

import pytest

from launchbay.usecases.launch_request import ignored_in_configuration, read_configuration_request
from tests.support.manifests import EXTENDED, WORKFLOWS
from tests.support.service import Api, accepted, fresh_name, refused


async def test_an_id_in_upper_case_is_the_same_in_rights_and_for_tokens(api: Api) -> None:
    application = await api.application("launch: {steps: []}")
    at = f"organizations/{api.organization}"
    explained = accepted(
        await api.get("permissions/explain", permission="Read", path=f"/applications/{application.upper()}")
    )
    assert explained["allowed"] is True
    account = accepted(await api.post(f"{at}/serviceAccounts", {"name": "ci", "roles": ["Administrator"]}))
    token = {"name": "t", "owner": account["id"].upper(), "scope": [f"Read: [/applications/{application.upper()}]"]}
    made = accepted(await api.post(f"{at}/accessTokens", token))
    by_token = {"authorization": f"Bearer {made['token']}"}
    assert accepted(await api.client.get(f"applications/{application}/revisions", headers=by_token)) == []
    answer = await api.client.get(f"{at}/environments", headers=by_token)
    assert accepted(answer) == []


async def test_an_id_in_upper_case_is_the_same_id_wherever_it_comes_in(api: Api) -> None:
    application = await api.application(WORKFLOWS)
    place = accepted(await api.post(f"environments/{api.environment}/clone"))["id"]
    revision = accepted(await api.post(f"applications/{application.upper()}/revisions", {"name": "r", "version": 2}))
    body = {"revisionId": revision["id"].upper(), "environmentId": place.upper(), "parameters": {"label": "x"}}
    instance = accepted(await api.post(f"applications/{application.upper()}/launch", body))["id"]
    document = await api.settled(instance.upper())
    assert (document["id"], document["environmentId"], document["status"]) == (instance, place, "Running")
    at = f"instances/{instance.upper()}"
    schedule = accepted(await api.post(f"{at}/echo/schedule", {"interval": "3600000"}))["id"]
    assert accepted(await api.post(f"{at}/{schedule.upper()}/reschedule", {"interval": "7200000"})) == {"id": schedule}
    configuration = {"revisionId": revision["id"].upper(), "parameters": {"label": "y"}}
    accepted(await api.put(f"{at}/configuration", configuration))
    assert (await api.settled(instance))["parameters"]["label"] == "y"
    [listed] = accepted(await api.get(f"revisions/{revision['id'].upper()}/instances"))
    assert listed["id"] == instance
    # Queries, of the reference and of extensions.
    assert accepted(await api.get(f"applications/{application}/instances", limit=5, after=instance.upper())) == []
    of = f"organizations/{api.organization.upper()}"
    query = {"application": f"{application.upper()},{application}", "environment": place.upper()}
    assert [each["id"] for each in accepted(await api.get(f"{of}/instances", **query))] == [instance]
    jobs = accepted(await api.get(f"{of}/jobs", instance=instance.upper()))
    assert {each["instanceId"] for each in jobs} == {instance}
    part = jobs[0]["id"].upper()
    assert [each["id"] for each in accepted(await api.get(f"{of}/jobs", idPart=part[:20]))] == [jobs[0]["id"]]
    assert accepted(await api.get(f"{at}/log", job=part))
    assert accepted(await api.get(f"{of}/audit", object=instance.upper()))


@pytest.mark.features("bulk")
async def test_ids_in_lists_of_bodies_may_be_in_upper_case(api: Api) -> None:
    of = f"organizations/{api.organization}"
    place = accepted(await api.post(f"{of}/environments", {"name": fresh_name("environment")}))["id"]
    resources = {"configuration.resources": ["a"]}
    pool = {"name": fresh_name(), "typeId": "builtin:static_resource_pool", "parameters": resources}
    service = accepted(await api.post(f"{of}/services", pool))["id"]
    accepted(await api.put(f"environments/{place}/services", {"services": [service.upper()]}))
    assert [each["id"] for each in accepted(await api.get(f"environments/{place}/services"))["services"]] == [service]
    instance = await api.running(WORKFLOWS, parameters={"label": "x"})
    accepted(await api.put(f"instances/{instance}/environments", {"environments": [place.upper()]}))
    assert accepted(await api.get(f"instances/{instance}/environments")) == {"environments": [place]}
    run = accepted(await api.post(f"{of}/bulk", {"act": "run", "workflow": "echo", "ids": [instance.upper()]}))
    [row] = accepted(await api.get(f"bulk/{run['id']}/instances"))
    assert row["instanceId"] == instance


def warnings_of(answer: Any) -> list[str]:
    found: list[str] = json.loads(answer.headers["Launchbay-Warnings"])
    return found


async def test_unknown_fields_of_established_bodies_are_ignored_with_a_warning(api: Api) -> None:
    instance = await api.running(EXTENDED)
    at = f"instances/{instance}"
    odd = ["The field 'odd' of the body is unknown, and was ignored."]
    scheduled = await api.post(f"{at}/greet/schedule", {"interval": "600000", "odd": {"a": 1}})
    assert set(accepted(scheduled)) == {"id"}
    assert warnings_of(scheduled) == odd
    moved = await api.post(f"{at}/greet/reschedule?include=warnings", {"interval": "1200000", "odd": None})
    assert accepted(moved) == {**accepted(scheduled), "warnings": odd}
    preview = accepted(await api.post(f"{at}/configuration/preview", {"odd": 1, "parameters": {"size": "2"}}))
    assert odd[0] in preview["warnings"]
    configured = await api.put(f"{at}/configuration", {"odd": 1, "parameters": {"size": "2"}})
    assert (accepted(configured), warnings_of(configured)) == ({}, odd)
    assert (await api.settled(instance))["parameters"]["size"] in {"2", 2}
    role = {"name": fresh_name("role"), "permissions": "- Read: ['/*']", "odd": 1}
    assert warnings_of(await api.post(f"organizations/{api.organization}/roles", role)) == odd


async def test_unknown_fields_inside_are_ignored_with_a_warning_that_names_their_path(api: Api) -> None:
    at = f"environments/{await api.offer()}"
    answer = await api.put(f"{at}/markers", {"markers": [{"name": "a"}, {"name": "b", "color": {"c": 1}}], "odd": 1})
    accepted(answer)
    assert warnings_of(answer) == [
        "The field 'markers[1].color' of the body is unknown, and was ignored.",
        "The field 'odd' of the body is unknown, and was ignored.",
    ]
    properties = [{"name": "tags", "type": "map<string,int>", "value": {"any": 1}, "unit": "x"}]
    answer = await api.put(f"{at}/properties", {"properties": properties})
    assert warnings_of(answer) == ["The field 'properties[0].unit' of the body is unknown, and was ignored."]


def test_unknown_fields_are_found_in_submodules_of_any_level() -> None:
    given = {"submodules": {"db": {"name": "x", "submodules": {"inner": {"vérsion": 1}}}}}
    read_configuration_request(given)  # doesn't refuse them
    found = ignored_in_configuration(given)
    assert found == (
        "The field 'submodules/db/name' of the body is unknown, and was ignored.",
        "The field 'submodules/db/submodules/inner/vérsion' of the body is unknown, and was ignored.",
    )


@pytest.mark.features("generations")
async def test_unknown_fields_of_additions_are_refused(api: Api) -> None:
    instance = await api.running(WORKFLOWS, parameters={"label": "x"})
    for path, body in (("configuration/rollback", {"odd": 1}), ("lifetime/extend", {"byMs": 60_000, "odd": 1})):
        refused(await api.post(f"instances/{instance}/{path}", body), 400, "WrongField")
    application = await api.application(WORKFLOWS)
    revision = {"name": "r", "version": 2, "submodules": {"db": {"odd": 1}}}
    refused(await api.post(f"applications/{application}/revisions", revision), 400, "InvalidField")


@pytest.mark.parametrize("count", [1, 400])
async def test_long_warnings_are_cut_in_the_header_only(api: Api, count: int) -> None:
    application = await api.application()
    steps = "".join(f"    - s{n}: {{action: getInstanceContext, precedingPhases: [néver{n}]}}\n" for n in range(count))
    path, text = f"applications/{application}/manifest", f"launch:\n  steps:\n{steps}"
    answer = await api.put_yaml(f"{path}?include=warnings", text)
    found = accepted(answer)["warnings"]
    told = warnings_of(answer)
    assert answer.headers["Launchbay-Warnings"].isascii()
    assert len(answer.headers["Launchbay-Warnings"]) < 2200
    if count == 1:
        assert told == [f"Line 3, column {found[0]['column']}: {found[0]['message']}"]
        assert "néver0" in told[0]
    else:
        assert told[-1].endswith("more: ask with include=warnings.")
        assert int(told[-1].split()[0]) + len(told) - 1 == len(found)


async def test_who_cannot_ask_for_the_rest_of_the_warnings_is_not_told_to(api: Api) -> None:
    names = ", ".join(f"{'n' * 50}{number}: {{default: 1}}" for number in range(8))
    application = await api.application(f"launch: {{parameters: {{{names}}}, steps: []}}")
    body = {"name": "r", "version": 2, "parameters": {f"{'x' * 50}{number}": 1 for number in range(8)}}
    told = warnings_of(await api.post(f"applications/{application}/revisions", body))
    assert told[-1] == f"{8 - len(told) + 1} more."
