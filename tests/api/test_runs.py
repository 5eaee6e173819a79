"""Running workflows: names, parameters, one at a time, the way to Destroyed (reference §4; api-decisions "States")."""

import asyncio
from typing import Any

import pytest

from tests.api.manifests import FAILING_LATE, PAUSING, TYPED, WORKFLOWS
from tests.api.running import Api, accepted, refused


@pytest.fixture
async def instance(api: Api) -> str:
    return await api.running(WORKFLOWS, parameters={"label": "x"})


@pytest.fixture(scope="module")
async def typed(api: Api) -> str:
    return await api.running(TYPED)


async def test_a_run_answers_the_id_of_the_instance_and_nothing_else(api: Api, instance: str) -> None:
    assert accepted(await api.post(f"instances/{instance}/echo", {"text": "hi"})) == {"id": instance}
    document = await api.settled(instance)
    assert document["returnValues"] == {"shown": "hi"}
    assert [job["name"] for job in document["workflowHistory"]] == ["echo", "launch"]


@pytest.mark.parametrize("body", [b"", b"{}", b" "])
async def test_a_run_without_parameters_needs_no_body(api: Api, instance: str, body: bytes) -> None:
    accepted(await api.send("POST", f"instances/{instance}/echo", body, content_type="application/json"))
    assert (await api.settled(instance))["returnValues"] == {"shown": "nothing"}


async def test_a_run_with_an_empty_body_needs_no_content_type(api: Api, instance: str) -> None:
    accepted(await api.post(f"instances/{instance}/echo"))
    assert (await api.settled(instance))["status"] == "Running"


async def test_a_second_run_while_one_is_executing_is_refused_with_409(api: Api, instance: str) -> None:
    accepted(await api.post(f"instances/{instance}/pause", {"seconds": "30"}))
    for workflow in ("echo", "pause", "launch", "destroy"):
        refused(await api.post(f"instances/{instance}/{workflow}", {}), 409, "InstanceBusy")
    document = await api.document(instance)
    assert document["status"] == "Executing"
    assert len(document["workflowHistory"]) == 2
    accepted(await api.delete(f"instances/{instance}?force=1"))


async def test_a_run_while_the_launch_is_under_way_is_refused_with_409(api: Api) -> None:
    instance = await api.launch(
        await api.application("launch: {steps: [{s: {action: wait, parameters: {delay: 30}}}]}")
    )
    refused(await api.post(f"instances/{instance}/launch", {}), 409, "InstanceBusy")
    refused(await api.post(f"instances/{instance}/destroy", {}), 409, "InstanceBusy")
    accepted(await api.delete(f"instances/{instance}?force=1"))


async def test_of_many_runs_at_once_exactly_one_is_accepted(api: Api, instance: str) -> None:
    answers = await asyncio.gather(*(api.post(f"instances/{instance}/pause", {"seconds": "1"}) for _ in range(12)))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 11
    document = await api.settled(instance)
    assert [job["name"] for job in document["workflowHistory"]] == ["pause", "launch"]


@pytest.mark.parametrize(
    "name", ["fly", "Echo", "echo ", "launch.x", "schedules", "userData", "configuration", "..", "%00x"]
)
async def test_an_unknown_workflow_is_400_with_the_names_that_are_available(api: Api, instance: str, name: str) -> None:
    path = f"instances/{instance}/{name.replace('..', '%2E%2E').replace(' ', '%20')}"
    if "%00" in name:
        refused(await api.post(path, {}), 404)
        return
    sentences = refused(await api.post(path, {}), 400, "UnknownWorkflow")
    assert sentences == f"Command is not supported: {name}. Available: launch, pause, echo, break, destroy."


@pytest.mark.parametrize("name", ["%00", "e%00cho", "%ff", "x" * 600], ids=["nul", "inner nul", "no UTF-8", "long"])
async def test_what_cannot_be_a_name_is_404(api: Api, instance: str, name: str) -> None:
    refused(await api.post(f"instances/{instance}/{name}", {}), 404, "UnknownPath")


async def test_an_unknown_workflow_is_400_even_while_another_runs(api: Api, instance: str) -> None:
    accepted(await api.post(f"instances/{instance}/pause", {"seconds": "30"}))
    refused(await api.post(f"instances/{instance}/fly", {}), 400, "UnknownWorkflow")
    accepted(await api.delete(f"instances/{instance}?force=1"))


async def test_a_name_may_have_dots(api: Api, typed: str) -> None:
    assert (await api.run(typed, "actions.default"))["returnValues"] == {"result.seen": "the default"}
    assert (await api.document(typed))["workflowHistory"][0]["name"] == "actions.default"


async def test_a_percent_encoded_slash_is_part_of_the_name(api: Api, instance: str) -> None:
    sentences = refused(await api.post(f"instances/{instance}/echo%2Fschedule", {}), 400, "UnknownWorkflow")
    assert "echo/schedule" in sentences


COERCED = [
    ("s", "12", "12"),
    ("s", "", ""),
    ("s", '{"a": 1}', '{"a": 1}'),
    ("s", 12, "12"),
    ("i", "12", 12),
    ("i", "-3", -3),
    ("i", 12, 12),
    ("i", 12.0, 12),
    ("b", "true", True),
    ("b", "False", False),
    ("b", True, True),
    ("d", "1.25", 1.25),
    ("d", "3", 3.0),
    ("d", 1, 1.0),
    ("o", '{"a": [1, {"b": null}]}', {"a": [1, {"b": None}]}),
    ("o", "[1, 2]", [1, 2]),
    ("o", "plain text", "plain text"),
    ("o", {"a": 1}, {"a": 1}),
    ("o", "true", True),
    ("l", "[1, 2, 3]", [1, 2, 3]),
    ("l", '["1", "2"]', [1, 2]),
    ("l", [4, "5"], [4, 5]),
    ("m", '{"yes": true, "no": "false"}', {"yes": True, "no": False}),
    ("m", {"x": "true"}, {"x": True}),
]


@pytest.mark.parametrize(("name", "sent", "expected"), COERCED, ids=[f"{name}-{sent!r}" for name, sent, _ in COERCED])
async def test_a_value_becomes_what_the_command_declares(
    api: Api, typed: str, name: str, sent: object, expected: object
) -> None:
    seen = (await api.run(typed, "actions.show.all", **{name: sent}))["returnValues"]["result.seen"]
    assert seen[name] == expected
    assert type(seen[name]) is type(expected)


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("i", "many"),
        ("i", "1.5"),
        ("i", "9" * 30),
        ("i", True),
        ("i", None),
        ("i", [1]),
        ("b", "yes"),
        ("b", 1),
        ("d", "much"),
        ("d", "NaN"),
        ("l", "1, 2"),
        ("l", '{"a": 1}'),
        ("l", '["x"]'),
        ("m", "[]"),
        ("m", '{"x": 1}'),
        ("o", "[" * 100 + "]" * 100),
        ("o", '{"a": 1, "a": 2}'),
        ("u", "something"),
        ("s", ["x"]),
    ],
    ids=str,
)
async def test_a_value_that_does_not_fit_is_400_and_names_the_parameter(
    api: Api, typed: str, name: str, sent: object
) -> None:
    before = len((await api.document(typed))["workflowHistory"])
    sentences = refused(await api.post(f"instances/{typed}/actions.show.all", {name: sent}), 400, "WrongParameterType")
    assert sentences.startswith(f"Parameter {name} of workflow actions.show.all: ")
    document = await api.document(typed)
    assert (document["status"], len(document["workflowHistory"])) == ("Running", before)


async def test_undeclared_parameters_are_refused_by_component_manifests(api: Api, typed: str) -> None:
    sentences = refused(
        await api.post(f"instances/{typed}/actions.show.all", {"i": "1", "colour": "red", "x": "y"}),
        400,
        "UnknownParameter",
    )
    assert "colour, x" in sentences
    assert "s, i, b, d, o, l, m, u" in sentences


async def test_undeclared_parameters_are_taken_by_workflow_manifests(api: Api, instance: str) -> None:
    document = await api.run(instance, "echo", text="hi", colour="red")
    assert document["returnValues"] == {"shown": "hi"}


@pytest.mark.parametrize("body", [b"[]", b'"x"', b"5", b"null", b'[{"text": "x"}]'])
async def test_parameters_that_are_no_object_are_400(api: Api, instance: str, body: bytes) -> None:
    refused(await api.send("POST", f"instances/{instance}/echo", body, content_type="application/json"), 400)


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "application/x-yaml"])
async def test_a_body_of_another_content_type_is_400(api: Api, instance: str, content_type: str) -> None:
    path = f"instances/{instance}/echo"
    refused(await api.send("POST", path, b"{}", content_type=content_type), 400, "WrongContentType")
    refused(await api.send("POST", path, b"text=x", content_type=content_type), 400, "WrongContentType")


async def test_a_destroy_is_destroying_at_the_first_look_and_destroyed_in_the_end(api: Api) -> None:
    instance = await api.running(PAUSING)
    assert accepted(await api.post(f"instances/{instance}/destroy", {})) == {"id": instance}
    document = await api.document(instance)
    if document["status"] != "Destroyed":  # it takes a few milliseconds only
        assert document["status"] == "Destroying"
        assert document["workflow"]["name"] == "destroy"
    document = await api.settled(instance)
    assert document["status"] == "Destroyed"
    assert [job["name"] for job in document["workflowHistory"]] == ["destroy", "launch"]


async def test_a_slow_destroy_is_destroying_meanwhile(api: Api) -> None:
    instance = await api.running(
        "launch: {steps: []}\ndestroy: {steps: [{s: {action: wait, parameters: {delay: 1}}}]}\n"
    )
    accepted(await api.post(f"instances/{instance}/destroy", {}))
    document = await api.document(instance)
    assert (document["status"], document["workflow"]["name"]) == ("Destroying", "destroy")
    refused(await api.post(f"instances/{instance}/launch", {}), 409, "InstanceBusy")
    refused(await api.post(f"instances/{instance}/destroy", {}), 409, "InstanceBusy")
    assert (await api.settled(instance))["status"] == "Destroyed"


async def test_nothing_can_be_run_on_a_destroyed_instance(api: Api, instance: str) -> None:
    """400, not 409: clients try again after 409, and Destroyed is final."""
    await api.run(instance, "destroy")
    for workflow in ("echo", "launch", "destroy"):
        refused(await api.post(f"instances/{instance}/{workflow}", {}), 400, "InstanceDestroyed")
    refused(await api.post(f"instances/{instance}/fly", {}), 400, "UnknownWorkflow")
    assert (await api.document(instance))["status"] == "Destroyed"


async def test_a_destroy_that_fails_leaves_failed_and_may_be_run_again(api: Api) -> None:
    instance = await api.running(
        "launch: {steps: []}\ndestroy: {steps: [{s: {action: restcall, parameters: {command: 'not a URL'}}}]}\n"
    )
    for jobs in (2, 3):
        document = await api.run(instance, "destroy")
        assert document["status"] == "Failed"
        assert len(document["workflowHistory"]) == jobs


async def test_a_failed_launch_may_be_tried_again(api: Api) -> None:
    instance = await api.launch(await api.application(FAILING_LATE))
    assert (await api.settled(instance))["status"] == "Failed"
    document = await api.run(instance, "launch")
    assert (document["status"], len(document["workflowHistory"])) == ("Failed", 2)


async def test_a_launch_of_a_running_instance_is_a_workflow_like_any_other(api: Api, instance: str) -> None:
    document = await api.run(instance, "launch")
    assert document["status"] == "Running"
    assert [job["name"] for job in document["workflowHistory"]] == ["launch", "launch"]
    assert document["parameters"] == {"label": "x"}


async def test_a_workflow_that_fails_leaves_the_status_and_tells_why(api: Api, instance: str) -> None:
    document = await api.run(instance, "break")
    assert document["workflowHistory"][0]["status"] == "Failed"
    assert document["status"] == "Running"
    assert "stop" in document["errorMessage"]


@pytest.mark.parametrize(
    ("entry", "workflow", "status"),
    [
        ("RunInstanceWorkflow: [/applications/*]", "echo", 200),
        ("RunInstanceWorkflow: [/applications/*]", "destroy", 403),
        ("RunInstanceWorkflow: [/applications/*/instances/*/workflows/echo]", "echo", 200),
        ("RunInstanceWorkflow: [/applications/*/instances/*/workflows/echo]", "break", 403),
        ("EditInstance: [/applications/*]", "destroy", 200),
        ("EditInstance: [/applications/*]", "echo", 403),
        ("Read: [/*]", "echo", 403),
    ],
)
async def test_a_run_needs_the_permission_for_its_workflow(
    api: Api, instance: str, entry: str, workflow: str, status: int
) -> None:
    member = await api.member(entry)
    answer = await member.post(f"instances/{instance}/{workflow}", {})
    assert answer.status_code == status, answer.text
    await api.settled(instance)


async def test_long_values_and_names_are_taken(api: Api, instance: str) -> None:
    parameters: dict[str, Any] = {"text": "x" * 100_000, "n" * 500: "y"}
    document = await api.run(instance, "echo", **parameters)
    assert document["returnValues"] == {"shown": parameters["text"]}


async def test_workflows_of_a_submodules_instance_are_run_through_its_parent_only(api: Api, instance: str) -> None:
    child = await api.running(WORKFLOWS, parameters={"label": "x"})
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE instances SET parent_id = %s WHERE id = %s", [instance, child])
    body = {"interval": "0"}
    for path in ("echo", "destroy", "fly", "echo/schedule", "echo/reschedule", "destroy/schedule"):
        answer = await api.post(f"instances/{child}/{path}", body)
        assert instance in refused(answer, 403, "SubmoduleInstance")
