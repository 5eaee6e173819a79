"""`helm` with the real programs, Helm 3 and 4, against a small API server."""

import asyncio
import json
import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from launchbay.actions.contract import ActionCall
from launchbay.actions.helm import Helm
from launchbay.actions.plan import ActionPlan, plan_action
from launchbay.egress.addresses import Allowlist
from launchbay.egress.http import EgressClient
from launchbay.errors import ActionFailed, NotApproved
from launchbay.processes.run import Programs
from tests.support.contexts import TLS, RecordingContext, run
from tests.support.documentation import ROOT
from tests.support.eventually import eventually_blocking
from tests.support.helm_cluster import HelmCluster, helm_cluster
from tests.support.network import LoopbackServer, answer, loopback_server, packed
from tests.support.outgoing_proxies import outgoing_proxy, squid

pytestmark = pytest.mark.slow  # starts real programs
HELM = Helm()
TOOLS = ROOT / ".venv" / "chart" / "bin"
SHOP = b"""apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data:
{{- range $name, $value := .Values }}
  {{ $name }}: {{ $value | quote }}
{{- end }}
"""
CHART = b"apiVersion: v2\nname: shop\nversion: 1.0.0\n"


@pytest.fixture(params=["helm3", "helm"])
def program(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory in which the program is `helm`, where the search looks first."""
    binary = TOOLS / request.param
    if not binary.exists():
        pytest.skip("Helm is not installed (requirements/chart)")
    directory = tmp_path / "bin"
    directory.mkdir()
    (directory / "helm").symlink_to(binary)
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")
    places = tmp_path / "places"
    places.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(places))
    return directory


@pytest.fixture
def cluster(program: Path) -> Iterator[HelmCluster]:
    with helm_cluster() as started:
        yield started


@pytest.fixture
async def charts() -> AsyncIterator[LoopbackServer]:
    files = {"shop/Chart.yaml": CHART, "shop/templates/map.yaml": SHOP, "shop/values.yaml": b"own: 1\n"}
    async with loopback_server() as server:
        server.routes["/shop.tgz"] = answer(body=packed({**files, "shop/templates/NOTES.txt": b"Thank you.\n"}))
        large = (
            b"{{- range until 40 }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: large-{{ . }}}\n"
            b"data: {text: '{{ repeat 200000 \"x\" }}'}\n{{- end }}\n"
        )
        server.routes["/large.tgz"] = answer(
            body=packed({**files, "shop/templates/map.yaml": large, "shop/templates/NOTES.txt": b"Thank you.\n"})
        )
        yield server


def here() -> RecordingContext:
    return RecordingContext(programs=Programs(["helm"]))


def step(cluster: HelmCluster, charts: LoopbackServer, **more: Any) -> dict[str, Any]:
    return {"cluster": cluster.access, "release": "shop", "chart": charts.url("/shop.tgz"), **more}


async def test_every_run_states_all_values(cluster: HelmCluster, charts: LoopbackServer) -> None:
    first = await run(HELM, here(), **step(cluster, charts, values={"port": 5, "size": 6}))
    assert first == {"status": "deployed", "revision": 1, "notes": "Thank you."}
    assert cluster.data("shop") == {"own": "1", "port": "5", "size": "6"}

    second = await run(HELM, here(), **step(cluster, charts))

    assert second["revision"] == 2
    assert cluster.data("shop") == {"own": "1"}, "no value of the former run is left"


async def test_the_outputs_of_a_large_chart_are_complete(cluster: HelmCluster, charts: LoopbackServer) -> None:
    """Its manifests have 8 MB: more than is read of a program."""
    outputs = await run(HELM, here(), **step(cluster, charts, chart=charts.url("/large.tgz")))

    assert outputs == {"status": "deployed", "revision": 1, "notes": "Thank you."}
    assert len(cluster.data("large-39")["text"]) == 200_000


async def test_notes_that_are_too_large_are_an_error(cluster: HelmCluster, charts: LoopbackServer) -> None:
    files = {"shop/Chart.yaml": CHART, "shop/templates/map.yaml": SHOP, "shop/values.yaml": b"own: 1\n"}
    charts.routes["/wordy.tgz"] = answer(
        body=packed({**files, "shop/templates/NOTES.txt": b'{{ repeat 5000000 "x" }}'})
    )

    with pytest.raises(ActionFailed, match=r"The notes of the chart have 4194304 bytes or more") as failed:
        await run(HELM, here(), **step(cluster, charts, chart=charts.url("/wordy.tgz")))

    assert not failed.value.retryable
    assert list(cluster.releases().values()) == ["deployed"]


def kill_while_it_works(program: Path, cluster: HelmCluster, directory: Path, chart: str) -> None:
    """Start Helm for the release, and kill it while it waits for the cluster."""
    kubeconfig = directory / "kubeconfig"
    names = [{"name": "c", "cluster": {"server": cluster.access["server"]}}]
    contexts = [{"name": "c", "context": {"cluster": "c"}}]
    document = {"apiVersion": "v1", "kind": "Config", "clusters": names, "contexts": contexts, "current-context": "c"}
    kubeconfig.write_text(json.dumps(document))
    before = set(cluster.releases())
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "KUBECONFIG": str(kubeconfig)}
    cluster.hold.set()
    running = subprocess.Popen(
        [program / "helm", "upgrade", "shop", chart, "--install"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually_blocking(lambda: set(cluster.releases()) - before)
    finally:
        running.kill()
        running.wait()
        cluster.hold.clear()


async def test_a_first_revision_that_a_kill_left_pending_is_uninstalled_if_the_step_says_so(
    program: Path, cluster: HelmCluster, charts: LoopbackServer, tmp_path: Path
) -> None:
    await asyncio.to_thread(kill_while_it_works, program, cluster, tmp_path, charts.url("/shop.tgz"))
    assert list(cluster.releases().values()) == ["pending-install"]

    with pytest.raises(ActionFailed) as refused:
        await run(HELM, here(), **step(cluster, charts))
    assert "The release 'shop' is pending-install in revision 1: a run was killed." in str(refused.value)
    assert not refused.value.retryable

    done = await run(HELM, here(), **step(cluster, charts, onPending="rollback"))
    assert (done["status"], done["revision"]) == ("deployed", 1)


async def test_an_upgrade_that_a_kill_left_pending_is_rolled_back_if_the_step_says_so(
    program: Path, cluster: HelmCluster, charts: LoopbackServer, tmp_path: Path
) -> None:
    await run(HELM, here(), **step(cluster, charts, values={"size": 1}))
    await asyncio.to_thread(kill_while_it_works, program, cluster, tmp_path, charts.url("/shop.tgz"))
    assert list(cluster.releases().values()) == ["deployed", "pending-upgrade"]

    with pytest.raises(ActionFailed) as refused:
        await run(HELM, here(), **step(cluster, charts, onPending="uninstall"))
    assert "Revision 1 was deployed, so it isn't uninstalled." in str(refused.value)

    context = here()
    done = await run(HELM, context, **step(cluster, charts, values={"size": 2}, onPending="rollback"))
    assert (done["status"], done["revision"]) == ("deployed", 4)
    assert cluster.data("shop")["size"] == "2"
    assert "It is rolled back to revision 1 first." in str(context.lines)


async def test_a_cluster_is_reached_through_the_proxy(cluster: HelmCluster, charts: LoopbackServer) -> None:
    """Its name is known to the proxy alone; the chart's server is this machine, which is reached directly."""
    server = f"http://cluster.launchbay.test:{cluster.port}"
    with outgoing_proxy(squid, credentials="ops:pass-w0rd") as proxy:
        context = here()
        context.egress = EgressClient(Allowlist.parse("127.0.0.1"), ssl_context=TLS, proxy=proxy.setting())

        outputs = await run(HELM, context, **{**step(cluster, charts), "cluster": {**cluster.access, "server": server}})

        assert outputs["status"] == "deployed"
        assert f"GET {server}/" in proxy.carried()
        assert "shop.tgz" not in proxy.carried()
        assert ["pass-w0rd", "pass-w0rd"] in context.learned

        context.egress = EgressClient(
            Allowlist.parse("127.0.0.1"), ssl_context=TLS, proxy=proxy.setting(credentials="ops:wrong")
        )
        private = {"server": "https://cluster.launchbay.test", "token": "token-1"}
        for access in ({**cluster.access, "server": server}, private):
            with pytest.raises(ActionFailed, match=r"refuses the credentials \(407\)") as failed:
                await run(HELM, context, **{**step(cluster, charts), "cluster": access})
            assert "outgoing_proxy_credentials_file" in failed.value.messages[1]

    with pytest.raises(ActionFailed, match=r"Can't reach the proxy.*connection refused"):
        await run(HELM, context, **{**step(cluster, charts), "cluster": private})


async def plan(context: RecordingContext, **parameters: Any) -> ActionPlan:
    return await plan_action(HELM, ActionCall(parameters, context), "web#launch/shop")


async def apply(context: RecordingContext, approved: ActionPlan, **parameters: Any) -> Any:
    return await HELM.run(ActionCall(parameters, context, approved=approved.artifact))


async def refusal(context: RecordingContext, approved: ActionPlan, **parameters: Any) -> str:
    with pytest.raises(NotApproved) as refused:
        await apply(context, approved, **parameters)
    return str(refused.value)


def effects(made: ActionPlan) -> list[tuple[str, str]]:
    return [(each.kind, each.address) for each in made.effects]


def objects_chart(*manifests: str, **more: str) -> bytes:
    """Return a chart with these objects."""
    templates = {f"shop/templates/{number}.yaml": text.encode() for number, text in enumerate(manifests)}
    crds = {f"shop/crds/{name}.yaml": text.encode() for name, text in more.items()}
    return packed({"shop/Chart.yaml": CHART, **templates, **crds})


def named(name: str, data: str = "x: y", annotations: str = "{}", kind: str = "ConfigMap") -> str:
    return f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}, annotations: {annotations}}}\ndata: {{{data}}}\n"


async def test_a_plan_changes_nothing_and_exactly_it_is_applied(cluster: HelmCluster, charts: LoopbackServer) -> None:
    context, given = here(), step(cluster, charts, values={"size": 1})

    first = await plan(context, **given)

    assert effects(first) == [("create", "ConfigMap default/shop")]
    assert first.effects[0].after["data.size"] == "1"
    assert (cluster.objects, context.documents.documents) == ({}, {})
    assert (await apply(context, first, **given))["revision"] == 1

    given = step(cluster, charts, values={"size": 2})
    second = await plan(context, **given)
    [effect] = second.effects
    assert (effect.kind, effect.before, effect.after) == ("change", {"data.size": "1"}, {"data.size": "2"})
    assert effect.certainty == "exact"
    assert (await apply(context, second, **given))["revision"] == 2
    assert cluster.data("shop")["size"] == "2"
    assert (await plan(context, **given)).effects == ()


async def test_a_release_that_somebody_upgraded_since_is_left_as_it_is(
    cluster: HelmCluster, charts: LoopbackServer
) -> None:
    context, given = here(), step(cluster, charts, values={"size": 2})
    await run(HELM, context, **step(cluster, charts, values={"size": 1}))
    made = await plan(context, **given)
    await run(HELM, context, **step(cluster, charts, values={"size": 7}))

    told = await refusal(context, made, **given)

    assert "the release changed (revision 2, deployed" in told
    assert "instead of revision 1, deployed" in told
    assert cluster.data("shop")["size"] == "7"
    assert len(cluster.releases()) == 2


async def test_a_release_that_somebody_made_again_is_another_one(cluster: HelmCluster, charts: LoopbackServer) -> None:
    """It has the same number again."""
    context = here()
    await run(HELM, context, **step(cluster, charts))
    made = await plan(context, release="shop", operation="uninstall")
    assert effects(made) == [("delete", "ConfigMap default/shop")]
    assert made.destroys == "default.shop"
    await run(HELM, context, release="shop", operation="uninstall")
    await run(HELM, context, **step(cluster, charts))

    told = await refusal(context, made, release="shop", operation="uninstall")

    assert "the release changed (revision 1, deployed" in told
    assert list(cluster.releases().values()) == ["deployed"]


async def test_other_values_or_another_chart_are_refused(cluster: HelmCluster, charts: LoopbackServer) -> None:
    context, given = here(), step(cluster, charts)
    made = await plan(context, **given)

    assert "the chart, its values" in await refusal(context, made, **step(cluster, charts, values={"size": 2}))
    charts.routes["/shop.tgz"] = answer(body=objects_chart(named("other")))
    assert "the chart, its values" in await refusal(context, made, **given)
    assert "the operation is uninstall" in await refusal(context, made, release="shop", operation="uninstall")
    assert cluster.objects == {}


async def test_what_the_chart_looks_up_in_the_cluster_must_be_the_same(
    cluster: HelmCluster, charts: LoopbackServer
) -> None:
    charts.routes["/shop.tgz"] = answer(
        body=objects_chart(
            '{{ $found := lookup "v1" "ConfigMap" "default" "theirs" }}\napiVersion: v1\nkind: ConfigMap\n'
            'metadata: {name: shop}\ndata: {mode: {{ dig "data" "mode" "none" $found | quote }}}\n'
        )
    )
    context, given = here(), step(cluster, charts)
    made = await plan(context, **given)
    assert made.effects[0].after["data.mode"] == "none"
    cluster.objects["/api/v1/namespaces/default/configmaps/theirs"] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "theirs", "namespace": "default"},
        "data": {"mode": "fast"},
    }

    told = await refusal(context, made, **given)

    assert "Helm now renders v1 ConfigMap shop otherwise" in told
    assert cluster.releases() == {}


async def test_what_a_chart_makes_at_random_is_an_estimate(cluster: HelmCluster, charts: LoopbackServer) -> None:
    password = "password: {{ randAlphaNum 20 | b64enc }}, user: YWRtaW4="
    charts.routes["/shop.tgz"] = answer(body=objects_chart(named("login", password, kind="Secret"), named("plain")))
    context, given = here(), step(cluster, charts)

    made = await plan(context, **given)

    assert [(each.address, each.certainty) for each in made.effects] == [
        ("Secret default/login", "estimated"),
        ("ConfigMap default/plain", "exact"),
    ]
    assert made.effects[0].after["data.user"] == "********"
    assert (await apply(context, made, **given))["status"] == "deployed"


async def test_objects_that_go_are_deletions_unless_their_policy_keeps_them(
    cluster: HelmCluster, charts: LoopbackServer
) -> None:
    keep = "{helm.sh/resource-policy: keep}"
    every = [named("stays"), named("goes"), named("kept", annotations=keep), named("was-kept", annotations=keep)]
    charts.routes["/shop.tgz"] = answer(body=objects_chart(*every))
    context, given = here(), step(cluster, charts)
    await run(HELM, context, **given)
    removal = await plan(context, release="shop", operation="uninstall")
    assert sorted(effects(removal)) == [
        ("change", "ConfigMap default/kept"),
        ("change", "ConfigMap default/was-kept"),
        ("delete", "ConfigMap default/goes"),
        ("delete", "ConfigMap default/stays"),
    ]
    # Somebody takes the mark off one of them.
    cluster.objects["/api/v1/namespaces/default/configmaps/was-kept"]["metadata"]["annotations"] = {}
    charts.routes["/shop.tgz"] = answer(body=objects_chart(named("stays")))

    made = await plan(context, **given)

    assert sorted(effects(made)) == [
        ("change", "ConfigMap default/kept"),
        ("delete", "ConfigMap default/goes"),
        ("delete", "ConfigMap default/was-kept"),
    ]
    await apply(context, made, **given)
    assert sorted(path.rpartition("/")[2] for path in cluster.objects if "/configmaps/" in path) == ["kept", "stays"]


async def test_hooks_the_namespace_and_definitions_are_named(cluster: HelmCluster, charts: LoopbackServer) -> None:
    hook = named("migrate", annotations="{helm.sh/hook: 'pre-install,pre-upgrade'}")
    after = named("bye", annotations="{helm.sh/hook: post-delete}")
    test = named("try", annotations="{helm.sh/hook: test}")
    charts.routes["/shop.tgz"] = answer(body=objects_chart(hook, after, test, named("plain")))
    context, given = here(), step(cluster, charts, namespace="prod", createNamespace=True)

    made = await plan(context, **given)

    assert effects(made) == [
        ("create", "Namespace prod"),
        ("run", "ConfigMap migrate"),
        ("create", "ConfigMap prod/plain"),
    ]
    assert made.effects[1].note == "hook: pre-install"
    await apply(context, made, **given)
    removal = await plan(context, release="shop", namespace="prod", operation="uninstall")
    assert effects(removal) == [("run", "ConfigMap bye"), ("delete", "ConfigMap prod/plain")]


async def test_definitions_of_the_chart_are_made_with_the_first_revision_alone(
    cluster: HelmCluster, charts: LoopbackServer
) -> None:
    definition = (
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: {}}}\nspec: {{}}\n"
    )
    chart = objects_chart(named("plain"), new=definition.format("new.example"), old=definition.format("old.example"))
    charts.routes["/crds.tgz"] = answer(body=chart)
    there = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/old.example"
    cluster.objects[there] = {"kind": "CustomResourceDefinition", "metadata": {"name": "old.example"}}

    made = await plan(here(), **step(cluster, charts, chart=charts.url("/crds.tgz")))

    assert effects(made) == [
        ("create", "CustomResourceDefinition new.example"),
        ("create", "ConfigMap default/plain"),
    ]
    await run(HELM, here(), **step(cluster, charts))
    again = await plan(here(), **step(cluster, charts, chart=charts.url("/crds.tgz")))
    assert "CustomResourceDefinition" not in str(effects(again))


async def test_of_two_approved_plans_of_a_first_revision_one_is_applied(
    cluster: HelmCluster, charts: LoopbackServer
) -> None:
    context, given = here(), step(cluster, charts)
    first, second = await plan(context, **given), await plan(context, **given)

    await apply(context, first, **given)

    assert "instead of none" in await refusal(context, second, **given)
    assert list(cluster.releases().values()) == ["deployed"]


async def test_a_missing_program_fails_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("launchbay.processes.run.search_path", lambda: "/nonexistent")
    with pytest.raises(ActionFailed, match=r"There is no helm on this server\. An administrator can install Helm 3"):
        await plan(here(), release="shop", cluster={"server": "https://localhost", "token": "token-1"})


async def test_a_release_that_is_pending_or_cannot_be_rendered_fails_the_plan(
    program: Path, cluster: HelmCluster, charts: LoopbackServer, tmp_path: Path
) -> None:
    charts.routes["/wrong.tgz"] = answer(body=objects_chart('{{ fail "no size is set" }}'))
    with pytest.raises(ActionFailed, match="no size is set"):
        await plan(here(), **step(cluster, charts, chart=charts.url("/wrong.tgz")))
    charts.routes["/random.tgz"] = answer(body=objects_chart(named("x-{{ randAlphaNum 8 | lower }}")))
    with pytest.raises(ActionFailed, match="names objects at random"):
        await plan(here(), **step(cluster, charts, chart=charts.url("/random.tgz")))
    item = "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: 'l-{{ . }}'}\n"
    huge = f"{{{{ range until 100 }}}}{item}data: {{text: '{{{{ repeat 200000 \"x\" }}}}'}}\n{{{{ end }}}}"
    charts.routes["/huge.tgz"] = answer(body=objects_chart(huge))
    with pytest.raises(ActionFailed, match="which is too much for a plan"):
        await plan(here(), **step(cluster, charts, chart=charts.url("/huge.tgz")))

    await asyncio.to_thread(kill_while_it_works, program, cluster, tmp_path, charts.url("/shop.tgz"))
    with pytest.raises(ActionFailed, match="'shop' is pending-install in revision 1"):
        await plan(here(), **step(cluster, charts, onPending="uninstall"))


async def test_a_cluster_that_is_not_there_fails_the_plan(program: Path, charts: LoopbackServer) -> None:
    with helm_cluster() as gone:
        given = step(gone, charts)
    with pytest.raises(ActionFailed, match=r"helm history ended with exit code 1: .*127\.0\.0\.1"):
        await plan(here(), **given)
