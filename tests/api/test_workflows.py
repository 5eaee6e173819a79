"""Running workflows: names, parameters, one at a time, the way to Destroyed (reference §4; conformance.md "States")."""

import asyncio
import itertools
import json
import time
from typing import Any

import pytest

from launchbay import limits
from launchbay.ids import is_id
from tests.support.eventually import eventually
from tests.support.manifests import FAILING_LATE, PAUSING, TYPED, WORKFLOWS
from tests.support.service import UNKNOWN, Api, accepted, refused


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
    job = (await api.document(instance))["workflowHistory"][0]["id"]
    for workflow in ("echo", "pause", "launch", "destroy"):
        said = refused(await api.post(f"instances/{instance}/{workflow}", {}), 409, "InstanceBusy")
        assert f" runs job 2, 'pause' (ID {job}); try again when it has ended." in said
    blind = await api.member("RunInstanceWorkflow: [/*]")
    said = refused(await blind.post(f"instances/{instance}/echo", {}), 409, "InstanceBusy")
    assert "pause" not in said
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
    # None of them ends before the last one has asked.
    answers = await asyncio.gather(*(api.post(f"instances/{instance}/pause", {"seconds": "600"}) for _ in range(12)))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 11
    [job] = {answer.headers["Launchbay-Job"] for answer in answers if answer.status_code == 200}
    accepted(await api.delete(f"instances/{instance}/jobs/{job}"))
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
    meant = " Did you mean 'echo'?" if name.strip().lower() == "echo" else ""
    assert sentences == f"Command is not supported: {name}.{meant} Available: launch, pause, echo, break, destroy."


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
    ("o", "12", 12),
    ("o", "1.10", "1.10"),
    ("o", True, True),
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


READING_UNDECLARED = """
launch:
  steps: [{keep: {action: serialize, parameters: {input: "{$.kept}"}}}]
greet: {parameters: {name: {}}, steps: [], return: {to: {value: "{$.name} {$.title}"}}}
destroy: {steps: []}
"""


async def test_a_parameter_that_is_neither_declared_nor_read_is_warned_of(api: Api) -> None:
    application = await api.application(READING_UNDECLARED)
    body = {"parameters": {"kept": "1", "whoo": "3"}}
    warning = "Workflow launch has no parameter whoo, so it is ignored. Parameters: none."
    preview = accepted(await api.post(f"applications/{application}/launch/preview", body))
    assert [each for each in preview["warnings"] if "ignored" in each] == [warning]
    launched = accepted(await api.post(f"applications/{application}/launch", body))
    assert launched == {"id": launched["id"], "warnings": [warning]}
    await api.settled(launched["id"])
    expected = "Workflow greet has no parameter other, so it is ignored. Parameters: name."
    for query, more in (("", {}), ("?include=warnings", {"warnings": [expected]})):
        given = {"name": "Ann", "title": "Dr", "other": "1"}
        ran = await api.post(f"instances/{launched['id']}/greet{query}", given)
        assert accepted(ran) == {"id": launched["id"], **more}
        assert json.loads(ran.headers["Launchbay-Warnings"]) == [expected]
        await api.settled(launched["id"])
    ran = await api.post(f"instances/{launched['id']}/greet", {"name": "Ann", "title": "Dr"})
    assert accepted(ran) == {"id": launched["id"]}
    assert "Launchbay-Warnings" not in ran.headers


@pytest.mark.features("recurring")
async def test_every_request_with_parameters_warns_of_undeclared_ones(api: Api) -> None:
    application = await api.application(READING_UNDECLARED)
    instance = await api.launch(application, destroyInterval=-1)
    await api.settled(instance)
    of, given, odd = f"organizations/{api.organization}", {"kept": "1", "whoo": "3"}, {"name": "Ann", "other": "1"}
    each = {"ids": [instance], "preview": True}
    launch = "Workflow launch has no parameter whoo, so it is ignored. Parameters: none."
    greet = "Workflow greet has no parameter other, so it is ignored. Parameters: name."
    daily = {"name": "daily", "cron": "0 0 3 * * ?", "zone": "UTC"}
    change = {"act": "reconfigure", "ids": [instance], "configuration": {"parameters": given}}
    for path, body, expected in (
        (f"instances/{instance}/greet/schedule", {"interval": "3600000", "parameters": odd}, greet),
        (f"instances/{instance}/greet/reschedule", {"interval": "7200000", "parameters": odd}, greet),
        (f"{of}/recurring-schedules", {**daily, "instanceId": instance, "workflow": "greet", "parameters": odd}, greet),
        (
            f"{of}/recurring-schedules",
            {**daily, "applicationId": application, "launch": {"parameters": given}, "preview": True},
            launch,
        ),
        (f"{of}/bulk", {"act": "run", "workflow": "greet", "parameters": odd, **each}, greet),
        (f"{of}/bulk", {"act": "reconfigure", "parameters": given, **each}, launch),
        (f"applications/{application}/revisions", {"name": "r", "version": 2, "parameters": given}, launch),
    ):
        answer = await api.post(path, body)
        accepted(answer)
        assert json.loads(answer.headers["Launchbay-Warnings"]) == [expected], path
    preview = accepted(await api.post(f"instances/{instance}/configuration/preview", {"parameters": given}))
    assert launch in preview["warnings"]
    for query, more in (("", {}), ("?include=warnings", {"warnings": [launch]})):
        configured = await api.put(f"instances/{instance}/configuration{query}", {"parameters": given})
        assert accepted(configured) == more
        assert json.loads(configured.headers["Launchbay-Warnings"]) == [launch]
        await api.settled(instance)
    made = accepted(await api.post(f"{of}/change-sets", change))
    shown = accepted(await api.get(f"change-sets/{made['id']}"))
    assert launch in str(shown)


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
    assert document["parameters"] == {"size": 1, "label": "x"}


@pytest.mark.parametrize("name", ["oops", "size"])
async def test_a_repeated_launch_refuses_parameters_and_names_what_takes_them(
    api: Api, instance: str, name: str
) -> None:
    run = await api.post(f"instances/{instance}/launch", {name: "1"})
    later = await api.post(f"instances/{instance}/launch/schedule", {"interval": 60_000, "parameters": {name: "1"}})
    for response in (run, later):
        refused(response, 400, "UnknownParameter")
        (message,) = response.json()["errors"]
        assert f"no parameters: {name}." in message
        assert "PUT instances/{id}/configuration" in message
        assert "resume" in message
    document = await api.run(instance, "launch")
    assert document["parameters"] == {"size": 1, "label": "x"}


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


HOUR_MS = 3_600_000


async def schedules(api: Api, instance: str) -> list[dict[str, Any]]:
    document = accepted(await api.get(f"instances/{instance}/schedules"))
    assert set(document) == {"schedules"}
    entries: list[dict[str, Any]] = document["schedules"]
    return entries


async def schedule(api: Api, instance: str, interval: object, workflow: str = "echo", **body: Any) -> str:
    document = accepted(await api.post(f"instances/{instance}/{workflow}/schedule", {"interval": interval, **body}))
    assert set(document) == {"id"}
    assert is_id(document["id"])
    made: str = document["id"]
    return made


@pytest.mark.parametrize("interval", [HOUR_MS, str(HOUR_MS), float(HOUR_MS), "03600000"])
async def test_a_schedule_is_listed_in_exactly_the_fields_of_the_reference(
    api: Api, instance: str, interval: object
) -> None:
    before_ms = time.time() * 1000
    made = await schedule(api, instance, interval)
    [entry] = await schedules(api, instance)
    assert set(entry) == {"id", "name", "timestamp"}
    assert (entry["id"], entry["name"]) == (made, "echo")
    assert before_ms - 2 <= entry["timestamp"] - HOUR_MS <= time.time() * 1000 + 2
    assert isinstance(entry["timestamp"], int)


async def test_schedules_are_listed_with_the_next_one_first(api: Api, instance: str) -> None:
    later, soon = await schedule(api, instance, 2 * HOUR_MS), await schedule(api, instance, HOUR_MS, "pause")
    assert [entry["id"] for entry in await schedules(api, instance)] == [soon, later]


@pytest.mark.parametrize("interval", [0, "0", 0.0, "000"])
async def test_interval_0_runs_at_once_and_answers_no_id(api: Api, instance: str, interval: object) -> None:
    path = f"instances/{instance}/echo/schedule"
    assert accepted(await api.post(path, {"interval": interval, "parameters": {"text": "now"}})) == {}
    assert (await api.settled(instance))["returnValues"] == {"shown": "now"}
    assert await schedules(api, instance) == []


async def test_interval_0_on_a_busy_instance_is_409(api: Api, instance: str) -> None:
    accepted(await api.post(f"instances/{instance}/pause", {"seconds": "30"}))
    refused(await api.post(f"instances/{instance}/echo/schedule", {"interval": 0}), 409, "InstanceBusy")
    accepted(await api.delete(f"instances/{instance}?force=1"))


@pytest.mark.parametrize(
    "interval",
    [-1, "-1", "soon", "", " 5", "1e3", "0x10", "١٢", 1.5, True, None, [5], {}, limits.INTERVAL_LONGEST_MS + 1, 2**62],
    ids=repr,
)
async def test_any_other_interval_is_400(api: Api, instance: str, interval: object) -> None:
    sentences = refused(await api.post(f"instances/{instance}/echo/schedule", {"interval": interval}), 400)
    assert "interval" in sentences
    made = await schedule(api, instance, HOUR_MS)
    path = f"instances/{instance}/{made}/reschedule"
    refused(await api.post(path, {"interval": interval}), 400)
    assert [entry["id"] for entry in await schedules(api, instance)] == [made]


@pytest.mark.parametrize("operation", ["schedule", "reschedule"])
async def test_a_missing_interval_is_400(api: Api, instance: str, operation: str) -> None:
    await schedule(api, instance, HOUR_MS)
    bodies: list[dict[str, Any]] = [{}, {"parameters": {}}]
    for body in bodies:
        assert "interval" in refused(await api.post(f"instances/{instance}/echo/{operation}", body), 400, "WrongField")
    refused(await api.post(f"instances/{instance}/echo/{operation}"), 400, "WrongContentType")


async def test_a_schedule_fires_once_with_its_parameters_and_not_early(api: Api, instance: str) -> None:
    await schedule(api, instance, "600", parameters={"text": "later"})
    [entry] = await schedules(api, instance)
    document = await eventually(lambda: api.document(instance), lambda document: len(document["workflowHistory"]) >= 2)
    document = await api.settled(instance)
    [echo, _] = document["workflowHistory"]
    assert entry["timestamp"] <= echo["startedAt"] < entry["timestamp"] + 2_000
    assert document["returnValues"] == {"shown": "later"}
    assert await schedules(api, instance) == []
    await schedule(api, instance, 100, parameters={"text": "later still"})
    await eventually(lambda: api.settled(instance), lambda found: found["returnValues"] == {"shown": "later still"})
    assert len((await api.document(instance))["workflowHistory"]) == 3


@pytest.mark.slow
async def test_a_schedule_behind_a_running_job_waits_for_its_end(api: Api, instance: str) -> None:
    accepted(await api.post(f"instances/{instance}/pause", {"seconds": "3"}))
    await schedule(api, instance, 100, parameters={"text": "after the pause"})
    other = await api.running(WORKFLOWS, parameters={"label": "x"})
    await schedule(api, other, 100, parameters={"text": "in time"})
    await eventually(lambda: api.settled(other), lambda found: found["returnValues"] == {"shown": "in time"})
    assert len(await schedules(api, instance)) == 1
    document = await eventually(lambda: api.document(instance), lambda document: len(document["workflowHistory"]) >= 3)
    document = await api.settled(instance)
    [echo, pause, _] = document["workflowHistory"]
    assert (echo["status"], pause["status"]) == ("Succeeded", "Succeeded")
    assert echo["startedAt"] >= pause["finishedAt"]
    assert document["returnValues"] == {"shown": "after the pause"}


async def test_schedules_that_fall_due_together_run_one_after_the_other(api: Api, instance: str) -> None:
    for number in range(5):
        await schedule(api, instance, 100 + number, parameters={"text": f"text {number}"})
    document = await eventually(
        lambda: api.document(instance),
        lambda document: len(document["workflowHistory"]) >= 6 and document["status"] == "Running",
    )
    history = document["workflowHistory"]
    assert all(job["status"] == "Succeeded" for job in history)
    assert all(newer["startedAt"] >= older["finishedAt"] for newer, older in itertools.pairwise(history))
    assert document["returnValues"] == {"shown": "text 4"}


async def test_a_schedule_of_destroy_destroys(api: Api, instance: str) -> None:
    await schedule(api, instance, HOUR_MS)
    await schedule(api, instance, 100, "destroy")
    await api.until(instance, "Destroyed")
    assert await schedules(api, instance) == []


@pytest.mark.parametrize("parameters", [None, {}, {"text": "x"}])
async def test_parameters_of_a_schedule_may_be_left_out(api: Api, instance: str, parameters: object) -> None:
    await schedule(api, instance, HOUR_MS, parameters=parameters)


async def test_a_schedule_is_checked_as_a_run_is(api: Api) -> None:
    typed = await api.running(TYPED)
    path = f"instances/{typed}/actions.show.all/schedule"
    wrong = {"interval": HOUR_MS, "parameters": {"i": "many"}}
    assert "Parameter i" in refused(await api.post(path, wrong), 400, "WrongParameterType")
    unknown = {"interval": HOUR_MS, "parameters": {"colour": "red"}}
    assert "colour" in refused(await api.post(path, unknown), 400, "UnknownParameter")
    refused(await api.post(f"instances/{typed}/fly/schedule", {"interval": HOUR_MS}), 400, "UnknownWorkflow")
    refused(await api.post(path, {"interval": HOUR_MS, "parameters": ["x"]}), 400, "WrongField")
    assert await schedules(api, typed) == []


async def test_a_rescheduled_workflow_keeps_its_id_and_its_parameters(api: Api, instance: str) -> None:
    made = await schedule(api, instance, HOUR_MS, parameters={"text": "kept"})
    answer = accepted(await api.post(f"instances/{instance}/{made}/reschedule", {"interval": "200"}))
    assert answer == {"id": made}
    await eventually(lambda: api.document(instance), lambda found: len(found["workflowHistory"]) >= 2)
    assert (await api.settled(instance))["returnValues"] == {"shown": "kept"}


async def test_a_reschedule_may_bring_new_parameters(api: Api, instance: str) -> None:
    made = await schedule(api, instance, HOUR_MS, parameters={"text": "old"})
    body = {"interval": "200", "parameters": {"text": "new"}}
    assert accepted(await api.post(f"instances/{instance}/echo/reschedule", body)) == {"id": made}
    await eventually(lambda: api.document(instance), lambda found: len(found["workflowHistory"]) >= 2)
    assert (await api.settled(instance))["returnValues"] == {"shown": "new"}


@pytest.mark.parametrize("interval", [0, "0"])
async def test_interval_0_cancels_and_answers_no_id(api: Api, instance: str, interval: object) -> None:
    made = await schedule(api, instance, HOUR_MS)
    assert accepted(await api.post(f"instances/{instance}/{made}/reschedule", {"interval": interval})) == {}
    assert await schedules(api, instance) == []
    refused(await api.post(f"instances/{instance}/{made}/reschedule", {"interval": interval}), 400, "UnknownSchedule")
    assert len((await api.document(instance))["workflowHistory"]) == 1


async def test_a_name_that_fits_several_schedules_is_400_with_their_ids(api: Api, instance: str) -> None:
    ids = [await schedule(api, instance, HOUR_MS + number) for number in range(3)]
    await schedule(api, instance, HOUR_MS, "pause")
    ambiguous = await api.post(f"instances/{instance}/echo/reschedule", {"interval": 0})
    sentences = refused(ambiguous, 400, "AmbiguousSchedule")
    assert all(made in sentences for made in ids)
    assert len(await schedules(api, instance)) == 4
    assert accepted(await api.post(f"instances/{instance}/{ids[1]}/reschedule", {"interval": 0})) == {}
    assert ids[1] not in {entry["id"] for entry in await schedules(api, instance)}


async def test_an_id_wins_over_a_workflow_of_that_name(api: Api) -> None:
    name = "5f" * 12
    instance = await api.running(f"launch: {{steps: []}}\n{name}: {{steps: []}}\nother: {{steps: []}}\n")
    named, other = await schedule(api, instance, HOUR_MS, name), await schedule(api, instance, HOUR_MS, "other")
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE schedules SET id = %s WHERE id = %s", [name, other])
    assert accepted(await api.post(f"instances/{instance}/{name}/reschedule", {"interval": 0})) == {}
    assert [entry["id"] for entry in await schedules(api, instance)] == [named]


@pytest.mark.parametrize("wanted", ["fly", "launch", UNKNOWN, "x" * 500])
async def test_an_unknown_schedule_is_400_and_says_where_they_are_listed(api: Api, instance: str, wanted: str) -> None:
    path = f"instances/{instance}/{wanted}/reschedule"
    assert "schedules" in refused(await api.post(path, {"interval": 5}), 400, "UnknownSchedule")


async def test_a_schedule_of_another_instance_is_unknown(api: Api, instance: str) -> None:
    other = await api.running(WORKFLOWS, parameters={"label": "x"})
    made = await schedule(api, other, HOUR_MS)
    refused(await api.post(f"instances/{instance}/{made}/reschedule", {"interval": 0}), 400, "UnknownSchedule")
    assert len(await schedules(api, other)) == 1


async def test_nothing_can_be_scheduled_on_a_destroyed_instance(api: Api, instance: str) -> None:
    await api.run(instance, "destroy")
    for interval in (0, HOUR_MS):
        path = f"instances/{instance}/echo/schedule"
        refused(await api.post(path, {"interval": interval}), 400, "InstanceDestroyed")
    assert await schedules(api, instance) == []


async def test_a_workflow_can_be_scheduled_while_another_runs(api: Api, instance: str) -> None:
    accepted(await api.post(f"instances/{instance}/pause", {"seconds": "30"}))
    await schedule(api, instance, HOUR_MS)
    accepted(await api.delete(f"instances/{instance}?force=1"))


@pytest.mark.parametrize(
    ("entry", "workflow", "status"),
    [
        ("ScheduleInstanceWorkflow: [/applications/*]", "echo", 200),
        ("ScheduleInstanceWorkflow: [/applications/*]", "destroy", 403),
        ("ScheduleInstanceWorkflow: [/applications/*/instances/*/workflows/echo]", "echo", 200),
        ("ScheduleInstanceWorkflow: [/applications/*/instances/*/workflows/echo]", "pause", 403),
        ("EditInstance: [/applications/*]", "destroy", 200),
        ("EditInstance: [/applications/*]", "echo", 403),
        ("RunInstanceWorkflow: [/applications/*]", "echo", 403),
    ],
)
async def test_schedule_and_reschedule_need_the_permission_for_the_workflow(
    api: Api, instance: str, entry: str, workflow: str, status: int
) -> None:
    member = await api.member(entry)
    body = {"interval": HOUR_MS}
    made = await schedule(api, instance, HOUR_MS, workflow)
    for path in (f"{workflow}/schedule", f"{made}/reschedule"):
        answer = await member.post(f"instances/{instance}/{path}", body)
        assert answer.status_code == status, (path, answer.text)
