"""Plans of `kubernetes.apply`: what a dry run of the cluster answers, and that what runs is what was approved."""

from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import pytest

from launchbay.actions.contract import ActionCall
from launchbay.actions.kubernetes import KubernetesApply
from launchbay.actions.kubernetes_plan import AT_RUN, held_object, object_effect
from launchbay.actions.plan import ActionPlan, plan_action
from launchbay.errors import ActionFailed, NotApproved
from tests.support.contexts import RecordingContext, run
from tests.support.external_services import TOKEN, KubeServer, kube_server

APPLY = KubernetesApply()


@pytest.fixture
async def cluster() -> AsyncIterator[KubeServer]:
    async with kube_server() as server:
        yield server


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def step(cluster: KubeServer, *documents: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"cluster": {"server": cluster.url, "token": TOKEN}, "documents": list(documents), **more}


async def plan(context: RecordingContext, **parameters: Any) -> ActionPlan:
    return await plan_action(APPLY, ActionCall(parameters, context), "web#launch/apply")


async def apply(context: RecordingContext, approved: ActionPlan, **parameters: Any) -> Any:
    return await APPLY.run(ActionCall(parameters, context, approved=approved.artifact))


async def refusal(context: RecordingContext, approved: ActionPlan, **parameters: Any) -> str:
    with pytest.raises(NotApproved) as caught:
        await apply(context, approved, **parameters)
    return str(caught.value)


def kinds(made: ActionPlan) -> list[tuple[str, str]]:
    return [(each.kind, each.address) for each in made.effects]


async def test_a_plan_changes_nothing_and_exactly_it_is_applied(cluster: KubeServer) -> None:
    context = RecordingContext()
    await run(APPLY, context, **step(cluster, config_map("a", x="1"), config_map("b"), config_map("same")))
    before = {path: dict(found) for path, found in cluster.objects.items()}
    given = step(cluster, config_map("a", x="2"), config_map("c", y="3"), config_map("same"))

    made = await plan(context, **given)

    assert kinds(made) == [
        ("change", "ConfigMap default/a"),
        ("create", "ConfigMap default/c"),
        ("delete", "ConfigMap default/b"),
    ]
    assert (made.effects[0].before, made.effects[0].after) == ({"data.x": "1"}, {"data.x": "2"})
    assert {each.certainty for each in made.effects} == {"exact"}
    assert cluster.objects == before
    await apply(context, made, **given)
    assert cluster.names() == ["a", "c", "same"]
    assert (await plan(context, **given)).effects == ()


async def test_what_somebody_changed_since_the_plan_stays_as_it_is(cluster: KubeServer) -> None:
    context = RecordingContext()
    await run(APPLY, context, **step(cluster, config_map("a", x="1")))
    given = step(cluster, config_map("a", x="2"))
    made = await plan(context, **given)
    cluster.named("a")["data"]["x"] = "by hand"

    told = await refusal(context, made, **given)

    assert "ConfigMap default/a or what would happen to it changed" in told
    assert "Nothing was done" in told
    assert cluster.named("a")["data"] == {"x": "by hand"}


async def test_objects_that_appeared_went_or_were_made_again_are_named(cluster: KubeServer) -> None:
    context = RecordingContext()
    await run(APPLY, context, **step(cluster, config_map("again", x="1"), config_map("gone", x="1")))
    given = step(cluster, config_map("again", x="2"), config_map("gone", x="2"), config_map("new"))
    made = await plan(context, **given)
    cluster.named("again")["metadata"]["uid"] = "another"
    del cluster.objects["/api/v1/namespaces/default/configmaps/gone"]
    cluster.objects["/api/v1/namespaces/default/configmaps/new"] = {
        **config_map("new"),
        "metadata": {"name": "new", "uid": "theirs", "generation": 1},
    }

    told = await refusal(context, made, **given)

    assert "ConfigMap default/again was made again" in told
    assert "ConfigMap default/gone no longer exists" in told
    assert "ConfigMap default/new exists now" in told


async def test_what_is_to_be_deleted_is_the_object_that_was_approved(cluster: KubeServer) -> None:
    context = RecordingContext()
    await run(APPLY, context, **step(cluster, config_map("a", x="1")))
    made = await plan(context, **step(cluster))
    assert kinds(made) == [("delete", "ConfigMap default/a")]
    assert made.destroys == "default"
    cluster.named("a")["data"]["x"] = "precious"

    await refusal(context, made, **step(cluster))

    assert cluster.names() == ["a"]


async def test_fields_and_statuses_that_others_change_do_not_matter(cluster: KubeServer) -> None:
    """An autoscaler sets the replicas, of which the step says nothing."""
    context = RecordingContext()
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"image": "a"}}
    await run(APPLY, context, **step(cluster, web, wait=False))
    given = step(cluster, {**web, "spec": {"image": "b"}}, wait=False)
    made = await plan(context, **given)
    found = cluster.named("web")
    found["spec"]["replicas"] = 7
    found["status"] = {"replicas": 7}
    found["metadata"] |= {"resourceVersion": "99", "generation": 99, "managedFields": [{"manager": "scaler"}]}

    await apply(context, made, **given)

    assert cluster.named("web")["spec"] == {"image": "b", "replicas": 7}


async def test_secrets_are_in_no_effect(cluster: KubeServer) -> None:
    context = RecordingContext()
    made_before = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"key": "canary-1"}}
    variable = {"name": "DB_PASSWORD", "value": "canary-2"}
    pod = {"containers": [{"name": "web", "env": [variable, {"name": "LEVEL", "value": "info"}]}]}
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": pod}

    made = await plan(context, **step(cluster, made_before, web))

    assert "canary" not in str(made.effects)
    assert made.effects[0].after["stringData.key"] == "********"
    assert made.effects[1].after["spec.containers.0.env.1.value"] == "info"


async def test_what_the_cluster_decides_at_random_is_an_estimate(cluster: KubeServer) -> None:
    numbers = count(1)
    cluster.at_random = lambda: {"spec": {"clusterIP": f"10.0.0.{next(numbers)}", "type": "ClusterIP"}}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    context = RecordingContext()

    made = await plan(context, **step(cluster, service))

    [effect] = made.effects
    assert effect.certainty == "estimated"
    assert effect.after["spec.clusterIP"] == AT_RUN
    assert effect.after["spec.type"] == "ClusterIP"
    await apply(context, made, **step(cluster, service))
    assert cluster.names() == ["web"]


async def test_objects_of_a_namespace_or_kind_that_the_step_makes_are_estimates(cluster: KubeServer) -> None:
    context = RecordingContext()
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    names = {"kind": "Widget", "plural": "widgets"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "names": names, "scope": "Namespaced"},
    }
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    inside = config_map("settings", x="1") | {"metadata": {"name": "settings", "namespace": "shop"}}
    given = step(cluster, namespace, definition, widget, inside)

    made = await plan(context, **given)

    assert [(each.kind, each.address, each.certainty) for each in made.effects] == [
        ("create", "Namespace shop", "exact"),
        ("create", "CustomResourceDefinition widgets.example.com", "exact"),
        ("create", "Widget default/w", "estimated"),
        ("create", "ConfigMap shop/settings", "estimated"),
    ]
    assert "Namespace shop is made by the same step" in made.effects[3].note


async def test_of_two_approved_plans_of_new_objects_one_is_applied(cluster: KubeServer) -> None:
    context, given = RecordingContext(), step(cluster, config_map("a", x="1"))
    first, second = await plan(context, **given), await plan(context, **given)
    await apply(context, first, **given)
    uid = cluster.named("a")["metadata"]["uid"]

    assert "ConfigMap default/a exists now" in await refusal(context, second, **given)
    assert cluster.named("a")["metadata"]["uid"] == uid


async def test_another_cluster_is_refused(cluster: KubeServer) -> None:
    context = RecordingContext()
    made = await plan(context, **step(cluster, config_map("a")))
    async with kube_server() as other:
        told = await refusal(context, made, **step(other, config_map("a")))
        assert "it is another cluster" in told
        assert other.names() == []


async def test_a_field_of_another_manager_fails_the_plan_where_the_step_would_fail(cluster: KubeServer) -> None:
    context = RecordingContext()
    await run(APPLY, context, **step(cluster, config_map("a", x="1")))
    cluster.managers["/api/v1/namespaces/default/configmaps/a"]["data.x"] = "kubectl"

    with pytest.raises(ActionFailed, match=r'conflict with "kubectl"'):
        await plan(context, **step(cluster, config_map("a", x="2"), force=False))


@pytest.mark.parametrize("status", [500, 401])
async def test_a_cluster_that_refuses_a_dry_run_is_named(cluster: KubeServer, status: int) -> None:
    cluster.failing["/configmaps/a"] = (status, "webhook w does not support dry run")

    with pytest.raises(ActionFailed, match=rf"ConfigMap default/a: the cluster returned {status}: webhook w"):
        await plan(RecordingContext(), **step(cluster, config_map("a")))


async def test_a_cluster_that_is_not_there_is_named() -> None:
    async with kube_server() as gone:
        given = step(gone, config_map("a"))

    with pytest.raises(ActionFailed, match=r"127\.0\.0\.1"):
        await plan(RecordingContext(), **given)


def test_a_secret_that_changes_shows_only_that_it_does() -> None:
    before = {"kind": "Secret", "data": {"a": "b25l", "same": "eA=="}}
    effect = object_effect("Secret s", before, {"kind": "Secret", "data": {"a": "dHdv", "same": "eA=="}})
    assert effect is not None
    assert (effect.before, effect.after) == ({"data.a": "********"}, {"data.a": "********"})


def test_what_varies_is_left_out_of_what_is_held_and_nothing_else() -> None:
    held = held_object({"a": 1, "b": {"c": "x7"}}, {"a": 1, "b": {"c": "q2"}})
    assert held.holds({"a": 1, "b": {"c": "anything"}})
    assert not held.holds({"a": 2, "b": {"c": "x7"}})
    assert not held.holds({"a": 1, "b": {"c": "x7", "d": None}})


def test_a_deletion_says_what_the_cluster_deletes_with_it() -> None:
    def note(kind: str) -> str:
        found = {"kind": kind, "metadata": {"name": "x"}}
        effect = object_effect(f"{kind} x", found, None)
        assert effect is not None
        return effect.note

    assert note("Namespace") == "with all that is in it"
    assert note("CustomResourceDefinition") == "with all objects of its kind"
    assert note("ConfigMap") == ""
