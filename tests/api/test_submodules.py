"""Applications inside of applications: launched, called and destroyed through their parent."""

from contextvars import ContextVar
from typing import Any

import pytest

from launchbay.errors import Unavailable
from launchbay.store import jobs
from launchbay.store.connection import BoundedConnection
from tests.support.applications import RELAY, SIZED_CHILD, child_of, parent, parent_and_child
from tests.support.databases import Databases
from tests.support.service import UNKNOWN, Api, Caller, accepted, fresh_name, refused, running_api


async def test_a_parent_launches_its_child_and_shows_its_signals(api: Api) -> None:
    document = await api.settled(await api.launch(await parent_and_child(api), parameters={"input.size": 7}))
    assert document["status"] == "Running", document["errorMessage"]
    assert document["returnValues"] == {"result.size": 7, "result.told": "size 7"}
    child = await api.document(child_of(document))
    assert child["status"] == "Running"
    assert child["returnValues"] == {"result.size": 7, "result.note": "size 7"}
    assert [job["name"] for job in child["workflowHistory"]] == ["launch"]


async def test_a_parent_waits_out_a_database_that_is_away_when_it_begins_to_wait_for_its_child(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_held = jobs.is_held
    failures: list[int] = []

    async def away_at_first(*given: Any, **values: Any) -> Any:
        if len(failures) < 2:
            failures.append(1)
            raise Unavailable("The database is away.")
        return await is_held(*given, **values)

    monkeypatch.setattr(jobs, "is_held", away_at_first)
    document = await api.settled(await api.launch(await parent_and_child(api)))
    assert (document["status"], document["errorMessage"], len(failures)) == ("Running", None, 2)


async def test_signals_and_results_of_a_child_have_the_types_that_the_parent_declares(api: Api) -> None:
    name = fresh_name("child")
    await api.application(SIZED_CHILD, name)
    text = parent(name).replace("size: publish-signal(int)", "size: publish-signal(string)")
    instance = await api.running(text.replace("int by => int size), ask", "string by => string size), ask"))
    assert (await api.document(instance))["returnValues"]["result.size"] == "1"
    document = await api.run(instance, "actions.ask", by="8")
    assert document["returnValues"] == {"result.size": "8", "result.told": "asked for 8, got 8"}
    [child] = [part["instanceId"] for part in document["components"] if "instanceId" in part]
    assert (await api.document(child))["returnValues"]["result.size"] == 8


async def test_a_child_is_found_by_the_id_of_its_application_too(api: Api) -> None:
    child = await api.application(SIZED_CHILD)
    document = await api.settled(await api.launch(await api.application(parent(child))))
    assert document["status"] == "Running", document["errorMessage"]
    assert document["returnValues"]["result.size"] == 1


async def test_a_command_of_the_child_runs_through_the_interfaces_of_the_parent(api: Api) -> None:
    instance = await api.launch(await parent_and_child(api))
    await api.settled(instance)
    document = await api.run(instance, "actions.grow", by="5")
    assert document["returnValues"]["result.size"] == 5
    child = await api.document(child_of(document))
    assert child["returnValues"]["result.note"] == "grown to 5"
    assert [job["name"] for job in child["workflowHistory"]] == ["actions.grow", "launch"]


async def test_a_workflow_of_the_parent_calls_the_child_and_gets_its_results(api: Api) -> None:
    instance = await api.launch(await parent_and_child(api))
    await api.settled(instance)
    document = await api.run(instance, "actions.ask", by="9")
    assert document["status"] == "Running", document["errorMessage"]
    assert document["returnValues"] == {"result.size": 9, "result.told": "asked for 9, got 9"}


async def test_destroying_the_parent_destroys_the_child(api: Api) -> None:
    instance = await api.launch(await parent_and_child(api))
    child = child_of(await api.settled(instance))
    assert (await api.run(instance, "destroy"))["status"] == "Destroyed"
    assert (await api.document(child))["status"] == "Destroyed"


async def test_deleting_the_parent_by_force_deletes_the_child(api: Api) -> None:
    instance = await api.launch(await parent_and_child(api))
    child = child_of(await api.settled(instance))
    accepted(await api.delete(f"instances/{instance}?force=1"))
    await api.gone(instance)
    await api.gone(child)


async def test_a_parameter_that_the_parent_maps_is_refused_naming_the_outer_one(api: Api) -> None:
    application = await parent_and_child(api)
    body = {"submodules": {"child": {"parameters": {"input.size": 3}}}}
    told = refused(await api.post(f"applications/{application}/launch", body), 400, "MappedParameter")
    assert "input.size" in told
    assert "child" in told


async def test_parameters_that_the_parent_does_not_map_reach_the_child(api: Api) -> None:
    name = fresh_name("child")
    await api.application(SIZED_CHILD, name)
    unmapped = parent(name).replace("    input: {size: bind(child#input.size)}\n", "")
    body = {"submodules": {"child": {"parameters": {"input.size": 4}}}}
    document = await api.settled(await api.launch(await api.application(unmapped), **body))
    assert document["returnValues"]["result.size"] == 4


async def test_an_older_version_of_the_child_can_be_asked_for(api: Api) -> None:
    name = fresh_name("child")
    child = await api.application(SIZED_CHILD, name)
    accepted(
        await api.put_yaml(f"applications/{child}/manifest", SIZED_CHILD.replace("size {$.size}", "newer {$.size}"))
    )
    application = await api.application(parent(name))
    newest = await api.settled(await api.launch(application))
    assert newest["returnValues"]["result.told"] == "newer 1"
    older = await api.settled(await api.launch(application, submodules={"child": {"manifestVersion": 2}}))
    assert older["returnValues"]["result.told"] == "size 1"


async def test_the_version_of_a_child_may_be_digits_in_a_string(api: Api) -> None:
    name = fresh_name("child")
    child = await api.application(SIZED_CHILD, name)
    accepted(await api.put_yaml(f"applications/{child}/manifest", SIZED_CHILD.replace("size {$.size}", "new {$.size}")))
    application = await api.application(parent(name))
    document = await api.settled(await api.launch(application, submodules={"child": {"manifestVersion": "2"}}))
    assert document["returnValues"]["result.told"] == "size 1"
    body = {"submodules": {"child": {"manifestVersion": "3"}}, "manifestVersion": "2"}
    accepted(await api.put(f"instances/{document['id']}/configuration", body))
    document = await api.settled(document["id"])
    assert (await api.document(document["components"][0]["instanceId"]))["version"] == 3
    for wrong in ("two", "2.5", True, [2]):
        body = {"submodules": {"child": {"manifestVersion": wrong}}}
        told = refused(await api.post(f"applications/{application}/launch", body), 400, "InvalidField")
        assert "submodules/child/manifestVersion must be a whole number." in told


@pytest.mark.parametrize(
    ("submodules", "code"),
    [
        ({"nobody": {}}, "UnknownSubmodule"),
        ({"child": {"manifestVersion": 99}}, "InvalidManifestVersion"),
        ({"child": {"revisionId": UNKNOWN}}, "UnknownRevision"),
        ({"child": []}, "InvalidField"),
        ({"child": {"parameters": {"input.nothing": 1}}}, "InvalidParameters"),
    ],
)
async def test_a_submodule_that_makes_no_sense_refuses_the_whole_launch(api: Api, submodules: Any, code: str) -> None:
    application = await parent_and_child(api)
    refused(await api.post(f"applications/{application}/launch", {"submodules": submodules}), 400, code)
    assert accepted(await api.get(f"applications/{application}/instances")) == []


async def test_an_application_that_nobody_has_refuses_the_launch_by_name(api: Api) -> None:
    application = await api.application(parent("nobody made this"))
    told = refused(await api.post(f"applications/{application}/launch", {}), 400, "UnknownSubmodule")
    assert "nobody made this" in told


async def test_an_application_inside_of_itself_is_refused(api: Api) -> None:
    name = fresh_name("endless")
    application = await api.application(parent(name), name)
    refused(await api.post(f"applications/{application}/launch", {}), 400, "EndlessSubmodules")


async def test_a_child_that_fails_fails_the_launch_with_the_way_to_it(api: Api) -> None:
    name = fresh_name("child")
    broken = SIZED_CHILD.replace("{action: wait, parameters: {delay: 0}}", "{action: wait, parameters: {delay: never}}")
    await api.application(broken, name)
    document = await api.settled(await api.launch(await api.application(parent(name))))
    assert document["status"] == "Failed"
    assert "'child'" in document["errorMessage"]
    assert "'pause'" in document["errorMessage"]
    assert (await api.document(child_of(document)))["status"] == "Failed"


async def test_a_child_without_a_declared_interface_fails_the_launch_with_its_name(api: Api) -> None:
    name = fresh_name("child")
    await api.application(SIZED_CHILD.replace(", note: bind(worker#result.note)", ""), name)
    document = await api.settled(await api.launch(await api.application(parent(name))))
    assert document["status"] == "Failed"
    assert "result.note" in document["errorMessage"]


async def test_three_levels_launch_and_go_together(api: Api) -> None:
    bottom, middle = fresh_name("bottom"), fresh_name("middle")
    await api.application(SIZED_CHILD, bottom)
    await api.application(RELAY.replace("LOCATOR", bottom), middle)
    instance = await api.launch(await api.application(parent(middle)), parameters={"input.size": 6})
    document = await api.settled(instance)
    assert document["returnValues"] == {"result.size": 6, "result.told": "size 6"}
    document = await api.run(instance, "actions.ask", by="8")
    assert document["returnValues"] == {"result.size": 8, "result.told": "asked for 8, got 8"}
    second = child_of(document)
    third = child_of(await api.document(second))
    assert (await api.run(instance, "destroy"))["status"] == "Destroyed"
    assert [(await api.document(each))["status"] for each in (second, third)] == ["Destroyed", "Destroyed"]


async def test_a_revision_of_a_submodule_brings_what_it_says_of_those_inside(api: Api) -> None:
    bottom, middle = fresh_name("bottom"), fresh_name("middle")
    leaf = await api.application(SIZED_CHILD, bottom)
    accepted(
        await api.put_yaml(f"applications/{leaf}/manifest", SIZED_CHILD.replace("size {$.size}", "newer {$.size}"))
    )
    application = await api.application(RELAY.replace("LOCATOR", bottom), middle)
    content = {"name": "stable", "version": 2, "submodules": {"child": {"manifestVersion": 2}}}
    revision = accepted(await api.post(f"applications/{application}/revisions", content))["id"]
    top = await api.application(parent(middle))
    of_revision = {"revisionId": revision}
    document = await api.settled(await api.launch(top, submodules={"child": of_revision}))
    assert document["returnValues"]["result.told"] == "size 1"
    over_it = {**of_revision, "submodules": {"child": {"manifestVersion": 3}}}
    document = await api.settled(await api.launch(top, submodules={"child": over_it}))
    assert document["returnValues"]["result.told"] == "newer 1"


async def test_a_revision_of_an_instance_makes_its_submodules_again_as_they_are(api: Api) -> None:
    bottom, middle = fresh_name("bottom"), fresh_name("middle")
    leaf = await api.application(SIZED_CHILD, bottom)
    unmapped = RELAY.replace("LOCATOR", bottom).replace("    input: {size: bind(child#input.size)}\n", "")
    await api.application(unmapped, middle)
    top = await api.application(
        parent(middle)
        .replace("    input: {size: bind(child#input.size)}\n", "")
        .replace("        input: {size: configuration(int)}\n", "")
    )
    inside = {"child": {"manifestVersion": 2, "parameters": {"input.size": 4}}}
    first = await api.settled(await api.launch(top, submodules={"child": {"submodules": inside}}))
    assert first["returnValues"]["result.told"] == "size 4"
    accepted(
        await api.put_yaml(f"applications/{leaf}/manifest", SIZED_CHILD.replace("size {$.size}", "newer {$.size}"))
    )
    made = accepted(await api.post(f"applications/{top}/revisions", {"name": "as it is", "instanceId": first["id"]}))
    assert accepted(await api.get(f"revisions/{made['id']}"))["submodules"] == {
        "child": {"manifestVersion": 2, "submodules": inside}
    }
    again = await api.settled(await api.launch(top, revisionId=made["id"]))
    assert again["returnValues"] == first["returnValues"]
    newest = await api.settled(await api.launch(top))
    assert newest["returnValues"]["result.told"] == "newer 1"


WORKFLOWS = """
version: "1.1"
launch:
  parameters: [size: {default: 1, type: int}, word: {default: hello}]
  steps: []
  return: {size: {value: "{$.size}"}, said: {value: "{$.word} {$.size}"}}
grow: {parameters: [by: {type: int}], steps: [], return: {size: {value: "{$.by}"}, said: {value: "grown to {$.by}"}}}
destroy: {steps: []}
"""
AROUND_WORKFLOWS = """
application:
  interfaces:
    in: {size: bind(child#input.size)}
    out: {"*": bind(child#result.*)}
    do: {grow: bind(child#actions.grow)}
  components:
    child:
      type: reference.Submodule
      configuration: {__locator.application-id: LOCATOR}
      interfaces:
        input: {size: configuration(int)}
        result: {size: publish-signal(int), said: publish-signal(string)}
        actions: {grow: receive-command(int by => int size)}
"""


async def test_a_workflow_manifest_is_a_child_with_the_interfaces_of_its_rewriting(api: Api) -> None:
    name = fresh_name("child")
    await api.application(WORKFLOWS, name)
    application = await api.application(AROUND_WORKFLOWS.replace("LOCATOR", name))
    document = await api.settled(await api.launch(application, parameters={"in.size": "3"}))
    assert document["returnValues"] == {"out.size": 3, "out.said": "hello 3"}, document["errorMessage"]
    instance = document["id"]
    document = await api.run(instance, "do.grow", by="5")
    assert document["returnValues"] == {"out.size": 5, "out.said": "grown to 5"}
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"in.size": 7}}))
    assert (await api.settled(instance))["status"] == "Running"
    assert (await api.document(child_of(document)))["parameters"] == {"size": 7, "word": "hello"}
    for named in ("word", "input.word"):
        body = {"submodules": {"child": {"parameters": {named: "bye"}}}}
        document = await api.settled(await api.launch(application, **body))
        assert document["returnValues"]["out.said"] == "bye 1"
    for named in ("size", "input.size"):
        mapped = {"submodules": {"child": {"parameters": {named: 3}}}}
        told = refused(await api.post(f"applications/{application}/launch", mapped), 400, "MappedParameter")
        assert "in.size" in told


_CHILD_COMPONENT = """
    child%d:
      type: reference.Submodule
      configuration: {__locator.application-id: %s}
      interfaces:
        input: {size: configuration(int)}
"""


def parent_of_many(locator: str, count: int) -> str:
    children = "".join(_CHILD_COMPONENT % (number, locator) for number in range(count))
    return f"application:\n  components:{children}"


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> ContextVar[list[Any]]:
    """Collects the statements of the task that set it: the engine's own tasks in this process are not in it."""
    collected: ContextVar[list[Any]] = ContextVar("statements")
    exchange = BoundedConnection._exchange  # with BEGIN, COMMIT and what was deferred

    async def collecting(self: Any, statements: Any) -> Any:
        # Quotas are counted at most once a second.
        collected.get([]).extend(each for each in statements if b"quota" not in each.text)
        return await exchange(self, statements)

    monkeypatch.setattr(BoundedConnection, "_exchange", collecting)
    return collected


async def test_a_launch_takes_as_many_statements_with_50_children_as_with_5(
    databases: Databases, statements: ContextVar[list[Any]]
) -> None:
    url = databases.create()
    async with running_api(url, engine=False) as api:
        name = fresh_name("child")
        await api.application(SIZED_CHILD, name)
        counts = []
        for children in (5, 50):
            application = await api.application(parent_of_many(name, children))
            await api.launch(application)  # compiles the manifests, and reads the grants
            made: list[Any] = []
            statements.set(made)
            instance = await api.launch(application)
            counts.append(len(made))
            statements.set([])
            document = await api.document(instance)
            assert len([part for part in document["components"] if "instanceId" in part]) == children
    databases.drop(url)
    assert counts[0] == counts[1] > 3


@pytest.mark.slow
async def test_a_reconfiguration_writes_20_new_children_in_as_many_statements_as_2(
    api: Api, statements: ContextVar[list[Any]]
) -> None:
    name = fresh_name("child")
    await api.application(SIZED_CHILD, name)
    counts = []
    for children in (2, 20):
        application = await api.application(parent_of_many(name, 1))
        instance = await api.launch(application)
        await api.settled(instance)
        accepted(await api.put_yaml(f"applications/{application}/manifest", parent_of_many(name, 1 + children)))
        configuration = {"manifestVersion": 3}
        accepted(await api.post(f"instances/{instance}/configuration/preview", configuration))  # compiles the manifest
        made: list[Any] = []
        statements.set(made)
        accepted(await api.put(f"instances/{instance}/configuration", configuration))
        counts.append(len(made))
        statements.set([])
        document = await api.settled(instance)
        assert document["status"] == "Running", document["errorMessage"]
        assert len([part for part in document["components"] if "instanceId" in part]) == 1 + children
    assert counts[0] == counts[1] > 3


@pytest.mark.slow
async def test_a_reconfiguration_changes_20_children_in_as_many_statements_as_2(
    api: Api, statements: ContextVar[list[Any]]
) -> None:
    name = fresh_name("child")
    await api.application(SIZED_CHILD, name)
    counts = []
    for children in (2, 20):
        instance = await api.launch(await api.application(parent_of_many(name, children)))
        shown = await api.settled(instance)
        parts = [part for part in shown["components"] if "instanceId" in part]
        configuration = {"submodules": {part["name"]: {"parameters": {"input.size": 9}} for part in parts}}
        accepted(await api.post(f"instances/{instance}/configuration/preview", configuration))
        made: list[Any] = []
        statements.set(made)
        accepted(await api.put(f"instances/{instance}/configuration", configuration))
        counts.append(len(made))
        statements.set([])
        document = await api.settled(instance)
        assert document["status"] == "Running", document["errorMessage"]
        for part in parts:
            assert (await api.document(part["instanceId"]))["parameters"]["input.size"] == 9
    assert counts[0] == counts[1] > 3, counts


async def family(api: Api) -> tuple[str, str, str]:
    """Make applications on three levels and return their ids, the outermost first."""
    inner, middle = fresh_name("inner"), fresh_name("middle")
    innermost = await api.application(SIZED_CHILD, inner)
    between = await api.application(RELAY.replace("LOCATOR", inner), middle)
    return await api.application(parent(middle)), between, innermost


async def launcher(api: Api, *applications: str) -> Caller:
    return await api.member(*(f"CreateInstance: [/applications/{application}]" for application in applications))


@pytest.mark.parametrize("missing", [0, 1, 2])
@pytest.mark.parametrize("path", ["launch", "launch/preview"])
async def test_a_launch_needs_the_permission_for_the_application_of_every_level(
    api: Api, missing: int, path: str
) -> None:
    levels = await family(api)
    somebody = await launcher(api, *(each for number, each in enumerate(levels) if number != missing))
    for body in ({}, {"input.size": 3}, {"parameters": {"input.size": 3}}):
        refused(await somebody.post(f"applications/{levels[0]}/{path}", body), 403, "NotAllowed")
    for application in levels:
        assert accepted(await api.get(f"applications/{application}/instances")) == []


async def test_who_may_launch_every_level_may_launch_them_together(api: Api) -> None:
    levels = await family(api)
    somebody = await launcher(api, *levels)
    instance = accepted(await somebody.post(f"applications/{levels[0]}/launch", {}))["id"]
    assert (await api.settled(instance))["status"] == "Running"


async def test_the_environment_counts_for_the_applications_inside_too(api: Api) -> None:
    levels = await family(api)
    somebody = await api.member(
        f"CreateInstance: [/applications/{levels[0]}]",
        f"CreateInstance: [/applications/{levels[1]}, /environments/{UNKNOWN}]",
        f"CreateInstance: [/applications/{levels[2]}]",
    )
    refused(await somebody.post(f"applications/{levels[0]}/launch", {}), 403, "NotAllowed")


async def test_a_reconfiguration_that_brings_another_application_needs_the_permission_for_it(api: Api) -> None:
    first, second = fresh_name("child"), fresh_name("child")
    await api.application(SIZED_CHILD, first)
    other = await api.application(SIZED_CHILD, second)
    application = await api.application(parent(first))
    instance = await api.launch(application)
    child = child_of(await api.settled(instance))
    accepted(await api.put_yaml(f"applications/{application}/manifest", parent(second)))
    editor = await api.member("EditInstance: [/applications/*]", f"CreateInstance: [/applications/{application}]")
    refused(await editor.put(f"instances/{instance}/configuration", {"manifestVersion": 3}), 403, "NotAllowed")
    assert child_of(await api.document(instance)) == child
    allowed = await api.member("EditInstance: [/applications/*]", f"CreateInstance: [/applications/{other}]")
    accepted(await allowed.put(f"instances/{instance}/configuration", {"manifestVersion": 3}))
    assert child_of(await api.settled(instance)) != child
