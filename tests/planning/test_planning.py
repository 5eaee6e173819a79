"""Compiled manifests are kept by version, the most recently used ones."""

from pathlib import Path

import pytest

from launchbay.errors import BadRequest, InvalidManifest
from launchbay.manifest.graph import CompiledManifest
from launchbay.manifest.services import unmet_needs
from launchbay.model.environment import EnvironmentView
from launchbay.model.instance import InstanceStatus
from launchbay.planning.arguments import check_size
from launchbay.planning.compiled import INLINE_CHARS, CompiledManifests
from launchbay.planning.names import available_workflows
from launchbay.planning.plans import may_accept, plan_destroy, plan_launch, plan_run, planned_steps
from tests.support.engine import Bay
from tests.support.manifests import compiled

RUNNING = InstanceStatus.RUNNING
V1 = """
    launch: {steps: [{a: {action: wait, parameters: {delay: 0}}}, {"b/c": {action: wait, parameters: {delay: 0}}}]}
    scale:
      parameters: [size: {type: int}, name: {}]
      steps: [{s: {action: wait, parameters: {delay: 0}}}]
    .hidden: {steps: []}
"""
V2 = """
    application:
      interfaces: {act: {grow: "bind(web.w#act.grow)", ping: "bind(web.w#act.ping)"}}
      components:
        web:
          components:
            w:
              type: workflow.Instance
              interfaces:
                act:
                  grow: "receive-command(int by, list<string> names => int size)"
                  ping: "receive-command(=> )"
              configuration:
                configuration.propagateStatus: [grow]
                configuration.workflows:
                  launch: {steps: [{s: {action: wait, parameters: {delay: 0}}}]}
                  grow: {steps: [{s: {action: wait, parameters: {delay: 0}}}]}
                  ping: {steps: []}
"""


def refusal(manifest: str, workflow: str, **parameters: object) -> str:
    with pytest.raises(BadRequest) as refused:
        plan_run(compiled(manifest), workflow, parameters, RUNNING)
    return str(refused.value)


def test_every_instance_offers_launch_destroy_and_its_commands() -> None:
    assert available_workflows(compiled(V1)) == ["launch", "scale", "destroy"]
    assert available_workflows(compiled(V2)) == ["launch", "act.grow", "act.ping", "destroy"]


def test_an_unknown_workflow_is_refused_with_those_that_there_are() -> None:
    known = "Available: launch, act.grow, act.ping, destroy."
    assert refusal(V2, "shrink") == f"Command is not supported: shrink. {known}"
    assert refusal(V2, "grow") == f"Command is not supported: grow. Did you mean 'act.grow'? {known}"
    assert refusal(V2, "act.pong") == f"Command is not supported: act.pong. Did you mean 'act.ping'? {known}"
    assert "Command is not supported: .hidden" in refusal(V1, ".hidden")


def test_parameters_are_texts_that_become_their_declared_types() -> None:
    plan = plan_run(compiled(V2), "act.grow", {"by": "3", "names": '["a", "b"]'}, RUNNING)
    assert (plan.component, plan.component_workflow) == ("web.w", "grow")
    assert plan.arguments == {"by": 3, "names": ["a", "b"]}
    assert plan_run(compiled(V2), "act.grow", {"by": 3}, RUNNING).arguments == {"by": 3}
    assert plan_run(compiled(V1), "scale", {"size": "4", "name": "x"}, RUNNING).arguments == {"size": 4, "name": "x"}


def test_values_that_do_not_fit_are_refused_by_name() -> None:
    assert refusal(V2, "act.grow", by="many").startswith("Parameter by of workflow act.grow: ")
    assert refusal(V2, "act.grow", names="[1").startswith("Parameter names of workflow act.grow: ")


def test_undeclared_parameters_are_refused_for_component_manifests_and_taken_for_workflow_manifests() -> None:
    told = refusal(V2, "act.grow", by="1", more="x")
    assert told == "Workflow act.grow has no parameter more. Parameters: by, names."
    assert plan_run(compiled(V1), "scale", {"more": "x"}, RUNNING).arguments == {"more": "x"}


def test_only_listed_workflows_and_launch_propagate_their_status() -> None:
    manifest = compiled(V2)
    assert plan_run(manifest, "act.grow", {}, RUNNING).propagates
    assert not plan_run(manifest, "act.ping", {}, RUNNING).propagates
    assert plan_run(manifest, "launch", {}, RUNNING).propagates


def test_planned_steps_have_the_paths_that_the_journal_uses() -> None:
    manifest = compiled(V1)
    assert planned_steps(manifest, plan_launch({}, RUNNING)) == [
        ["workflow#launch/a", "a", "Requested", 0],
        ["workflow#launch/b%2Fc", "b/c", "Requested", 0],
    ]
    grow = plan_run(compiled(V2), "act.grow", {}, RUNNING)
    assert planned_steps(compiled(V2), grow) == [["web.w#grow/s", "s", "Requested", 0]]


@pytest.mark.parametrize("status", list(InstanceStatus))
def test_what_is_busy_or_gone_accepts_no_work(status: InstanceStatus) -> None:
    assert may_accept(plan_launch({}, status)) == (status in {InstanceStatus.RUNNING, InstanceStatus.FAILED})
    busy_or_gone = {InstanceStatus.EXECUTING, InstanceStatus.DESTROYING, InstanceStatus.DESTROYED}
    assert may_accept(plan_destroy(status)) == (status not in busy_or_gone)


NEEDY = """
    application:
      components:
        env:
          type: reference.Service
          interfaces:
            properties: {region: publish-signal(string)}
            gpu: {gpu: publish-signal(unit)}
        w:
          type: workflow.Instance
          required: REQUIRED
          interfaces: {properties: {region: consume-signal(string)}, gpu: {gpu: consume-signal(unit)}}
      bindings: [[w, env]]
"""


def test_required_markers_and_properties_that_are_missing_are_each_named() -> None:
    needy = compiled(NEEDY.replace("REQUIRED", "[properties, gpu]"))
    problems = unmet_needs(needy, EnvironmentView())
    assert len(problems) == 2
    assert "needs marker 'gpu'" in problems[0]
    assert "needs property 'region'" in problems[1]
    assert all("Add it to the environment." in problem for problem in problems)


def test_what_the_environment_offers_is_no_problem() -> None:
    needy = compiled(NEEDY.replace("REQUIRED", "[properties, gpu]"))
    assert unmet_needs(needy, EnvironmentView(markers=["gpu"], properties={"region": None})) == []


def test_what_is_not_required_may_be_missing() -> None:
    assert unmet_needs(compiled(NEEDY.replace("REQUIRED", "[]")), EnvironmentView()) == []


def test_policies_belong_to_the_action_that_they_name() -> None:
    view = EnvironmentView(policies={"wait.delay": 1, "wait.retryCount": 2, "waitPeers.timeout": 3, "plain": 4})
    assert view.step_policies("wait") == {"delay": 1, "retryCount": 2}
    assert view.step_policies("nothing") == {}


async def test_a_version_is_compiled_once_and_the_longest_unused_goes_first(database_url: str, tmp_path: Path) -> None:
    async with Bay(database_url, tmp_path) as bay:
        for name in ("a", "b", "c"):
            await bay.instance(f"launch: {{steps: []}}\n{name}: {{steps: []}}\n")
        ids = [row[0] for row in await bay.rows("SELECT application_id FROM instances ORDER BY created_at")]
        done: list[str] = []

        def compile_noted(data: bytes) -> CompiledManifest:
            done.append(data.decode().split("\n")[1][0])
            return compiled(data.decode())

        kept = CompiledManifests(compile_noted, capacity_chars=2 * INLINE_CHARS)
        async with bay.database.connection() as connection:
            for place in (0, 0, 1, 0, 2, 0, 1):
                await kept.get(connection, ids[place], 1)
        assert done == ["a", "b", "c", "b"]


async def test_a_long_manifest_takes_the_place_of_several_and_stays_itself(database_url: str, tmp_path: Path) -> None:
    async with Bay(database_url, tmp_path) as bay:
        for name, comment in (("a", ""), ("b", "# " + "x" * 2 * INLINE_CHARS), ("c", "")):
            await bay.instance(f"launch: {{steps: []}}\n{name}: {{steps: []}}\n{comment}\n")
        ids = [row[0] for row in await bay.rows("SELECT application_id FROM instances ORDER BY created_at")]
        done: list[str] = []

        def compile_noted(data: bytes) -> CompiledManifest:
            done.append(data.decode().split("\n")[1][0])
            return compiled(data.decode())

        kept = CompiledManifests(compile_noted, capacity_chars=2 * INLINE_CHARS)
        async with bay.database.connection() as connection:
            for place in (0, 2, 0, 1, 1, 0):
                await kept.get(connection, ids[place], 1)
        assert done == ["a", "c", "b", "a"]


async def test_a_manifest_that_is_not_accepted_any_more_is_not_kept(database_url: str, tmp_path: Path) -> None:
    async with Bay(database_url, tmp_path) as bay:
        await bay.instance("launch: [")
        [(application,)] = await bay.rows("SELECT application_id FROM instances")
        kept = bay.manifests()
        async with bay.database.connection() as connection:
            with pytest.raises(InvalidManifest):
                await kept.get(connection, application, 1)
            await connection.execute(b"UPDATE manifests SET content = '{}'")
            assert (await kept.get(connection, application, 1)).commands == {}


@pytest.mark.parametrize("value", [list(range(40_000)), f"[{'1,' * 40_000}1]", [{"a": 1}] * 20_000])
def test_parameters_with_too_many_values_are_refused_before_they_are_read(value: object) -> None:
    with pytest.raises(BadRequest, match="The parameters exceed 2 MiB"):
        check_size({"p": value})
    check_size({"p": "a,b" * 300_000})  # a long text is one value
