"""Instances of releases that somebody installed without Launchbay, with the real Helm 3 and 4."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.databases import Databases
from tests.support.drift import checked, drift_of, open_findings
from tests.support.eventually import eventually
from tests.support.helm_cluster import TOKEN, helm_cluster
from tests.support.network import answer, loopback_server
from tests.support.releases import CHART, TOOLS, Kubectl, fresh_release, manifest_of
from tests.support.service import Api, accepted, refused, running_api

pytestmark = pytest.mark.slow  # starts real programs


@dataclass
class World:
    """A server, a cluster, and somebody who works with it by hand."""

    api: Api
    hand: Kubectl
    chart: str

    def manifest(self, release: str, **more: Any) -> str:
        return manifest_of(self.hand.cluster, self.chart, release, **more)

    async def adopt(self, application: str, *, component: str = "web", **body: Any) -> Any:
        sent = {"releases": [{"component": component}], **body}
        return await self.api.post(f"applications/{application}/adoptions", sent)

    async def adopted(self, release: str, **more: Any) -> tuple[str, Any]:
        """Adopt a release, and return the instance and its drift when the first check is done."""
        application = await self.api.application(self.manifest(release, **more))
        instance = str(accepted(await self.adopt(application))["instanceId"])
        return instance, await drift_of(self.api, instance)


@pytest.fixture(scope="module", params=["helm3", "helm"])
async def world(
    request: pytest.FixtureRequest, databases: Databases, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    binary = TOOLS / request.param
    if not binary.exists():
        pytest.skip("Helm is not installed (requirements/chart)")
    directory: Path = tmp_path_factory.mktemp("helm")
    (directory / "bin").mkdir()
    (directory / "bin" / "helm").symlink_to(binary)
    url = databases.create()
    async with AsyncExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("PATH", f"{directory}/bin{os.pathsep}{os.environ['PATH']}")
        cluster = stack.enter_context(helm_cluster())
        charts = await stack.enter_async_context(loopback_server())
        charts.routes["/shop.tgz"] = answer(body=CHART)
        started = running_api(url, server_programs="helm", outgoing_allow="127.0.0.1")
        api = await stack.enter_async_context(started)
        yield World(api, Kubectl(binary, cluster, directory), charts.url("/shop.tgz"))
    databases.drop(url)


async def take_over(api: Api, instance: str) -> Any:
    body = {"act": "manage", "ids": [instance]}
    made = accepted(await api.post(f"organizations/{api.organization}/change-sets", body))
    shown = await eventually(
        lambda: api.read(f"change-sets/{made['id']}"),
        lambda found: found["plan"][0]["effects"]["status"] not in {"Waiting", "Planning"},
        within_s=90,
    )
    accepted(await api.post(f"change-sets/{made['id']}/apply", {}))
    await api.settled(instance)
    return shown["plan"][0]["effects"]


async def test_a_release_becomes_an_instance_of_which_a_plan_changes_nothing(world: World) -> None:
    release = fresh_release()
    world.hand.install(release, "--set", "size=2")

    instance, drift = await world.adopted(release)

    assert (drift["status"], open_findings(drift)) == ("Checked", {}), drift
    assert accepted(await world.api.get(f"instances/{instance}"))["status"] == "Running"
    shown = accepted(await world.api.get(f"instances/{instance}/adoption"))
    assert (shown["managed"], shown["states"]) == ("observe", [])
    assert shown["releases"] == [
        {
            "component": "web",
            "release": release,
            "namespace": "default",
            "chart": "shop-front-1.0.0-rc.1",
            "appVersion": "1.10",
            "revision": 1,
            "resources": [f"v1 ConfigMap {release}"],
            "resourceCount": 1,
            "otherValues": {},
            "otherValueCount": 0,
        }
    ]
    assert world.hand.revisions(release) == 1


async def test_of_values_that_the_manifest_does_not_set_only_harmless_ones_are_shown(world: World) -> None:
    release = fresh_release()
    world.hand.install(
        release,
        "--set",
        "size=2,extra.replicas=3,extra.password=geheim-4711,a\\.b=1,tags[0]=x,none=null,"
        "extra.dsn=postgres://u:geheim-4711@h/db,env[0].name=DB_PASSWORD,env[0].value=geheim-4711",
    )
    application = await world.api.application(world.manifest(release))

    answer = await world.adopt(application, dryRun=True)

    [found] = accepted(answer)["releases"]
    shown = {"a\\.b": 1, "extra.replicas": 3, "tags": "(list)", "extra.dsn": "(text)"}
    assert {name: value for name, value in found["otherValues"].items() if name in shown} == shown
    assert "geheim-4711" not in answer.text
    assert "extra.password" in found["otherValues"]
    assert accepted(await world.api.get(f"applications/{application}/instances")) == []
    drift = (await world.adopted(release))[1]
    [finding] = open_findings(drift).values()
    assert "ConfigMap" in finding["address"]


async def test_a_check_finds_what_somebody_changed_and_the_first_change_set_takes_over(world: World) -> None:
    release = fresh_release()
    world.hand.install(release, "--set", "size=2")
    instance, _ = await world.adopted(release)
    world.hand.install(release, "--set", "size=5")

    [finding] = open_findings(await checked(world.api, instance)).values()
    assert (finding["kind"], release in finding["address"]) == ("changed", True), finding

    effects = await take_over(world.api, instance)
    assert effects["status"] == "Planned", effects
    assert accepted(await world.api.get(f"instances/{instance}/adoption"))["managed"] == "full"
    assert world.hand.cluster.data(release)["size"] == "2"
    assert world.hand.revisions(release) == 3
    accepted(await world.api.post(f"instances/{instance}/destroy", {}))
    await world.api.settled(instance)
    assert world.hand.revisions(release) == 0, "a managed instance destroys what it has"


async def test_destroying_before_only_forgets_and_the_release_can_be_adopted_again(world: World) -> None:
    release = fresh_release()
    world.hand.install(release, "--set", "size=2")
    instance, _ = await world.adopted(release)
    other = await world.api.application(world.manifest(release))
    assert instance in refused(await world.adopt(other), 400, "AdoptedAlready")

    accepted(await world.api.post(f"instances/{instance}/destroy", {}))
    await world.api.settled(instance)

    assert world.hand.revisions(release) == 1
    assert world.hand.cluster.data(release)["size"] == "2"
    accepted(await world.adopt(other))


async def test_a_release_that_an_instance_installed_is_not_adopted(world: World) -> None:
    release = fresh_release()
    instance = await world.api.running(world.manifest(release))
    other = await world.api.application(world.manifest(release))

    problem = refused(await world.adopt(other), 400, "AdoptedAlready")

    assert instance in problem
    assert "was installed by" in problem


async def test_a_release_is_known_however_its_server_is_written(world: World) -> None:
    release = fresh_release()
    manifest = world.manifest(release)
    instance = await world.api.running(manifest)
    server = world.hand.cluster.access["server"]
    application = await world.api.application(manifest.replace(server, f"{server}/"))

    assert instance in refused(await world.adopt(application), 400, "AdoptedAlready")


async def test_an_override_adopts_what_is_frozen_and_is_recorded_once(world: World) -> None:
    release = fresh_release()
    world.hand.install(release, "--set", "size=2")
    application = await world.api.application(world.manifest(release))
    accepted(await world.api.put(f"applications/{application}/freeze", {"reason": "Release."}))
    sent = {"releases": [{"component": "web"}]}
    path = f"applications/{application}/adoptions"
    refused(await world.api.post(path, sent), 403, "ApplicationFrozen")

    header = {"Launchbay-Override-Freeze": "An incident."}
    accepted(await world.api.client.post(path, json={**sent, "dryRun": True}, headers=header))
    accepted(await world.api.client.post(path, json=sent, headers=header))

    audit = f"organizations/{world.api.organization}/audit?action=override_freeze"
    assert [each["after"]["operation"] for each in accepted(await world.api.get(audit))] == ["adopt_instance"]


async def test_a_release_that_is_not_there_or_not_deployed_is_refused_and_leaves_nothing(world: World) -> None:
    release = fresh_release()
    application = await world.api.application(world.manifest(release))
    problem = refused(await world.adopt(application), 400, "InvalidRelease")
    assert f"The release '{release}' in the namespace 'default'" in problem
    assert "isn't there" in problem
    assert "helm list --all --namespace default" in problem
    assert TOKEN not in problem

    world.hand.install(release, "--set", "size=2")
    world.hand.helm("uninstall", release, "--keep-history")
    problem = refused(await world.adopt(application), 400, "InvalidRelease")
    assert "is uninstalled in revision 1" in problem
    assert f"helm rollback {release}" in problem
    assert accepted(await world.api.get(f"applications/{application}/instances")) == []


async def test_a_component_with_several_releases_adopts_all_or_the_named_one(world: World) -> None:
    release = fresh_release()
    for namespace in ("default", "blue"):
        world.hand.install(release, "--set", "size=2", "--create-namespace", namespace=namespace)
    application = await world.api.application(world.manifest(release, namespaces=("default", "blue")))
    path = f"applications/{application}/adoptions"
    green = {"component": "web", "release": release, "namespace": "green"}
    problem = refused(await world.api.post(path, {"releases": [green]}), 400, "InvalidRelease")
    assert f"It has: default/{release}, blue/{release}." in problem

    named = accepted(await world.api.post(path, {"releases": [{**green, "namespace": "blue"}], "dryRun": True}))
    both = accepted(await world.adopt(application))

    assert [each["namespace"] for each in named["releases"]] == ["blue"]
    assert {each["namespace"] for each in both["releases"]} == {"default", "blue"}


@pytest.mark.parametrize(
    ("component", "what"), [("db", "no step of 'db' installs"), ("x" * 500, "no step of"), ("", "no step of ''")]
)
async def test_a_component_without_the_action_is_refused(world: World, component: str, what: str) -> None:
    application = await world.api.application(world.manifest(fresh_release()))
    problem = refused(await world.adopt(application, component=component), 400, "InvalidRelease")
    assert what in problem
    assert "Name one of: web." in problem
