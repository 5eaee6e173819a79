"""`helm` with the real programs, Helm 3 and 4, against a small API server."""

import asyncio
import json
import os
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from launchbay.actions.helm import Helm
from launchbay.egress.addresses import Allowlist
from launchbay.egress.http import EgressClient
from launchbay.errors import ActionFailed
from launchbay.processes.run import Programs
from tests.support.contexts import TLS, RecordingContext, run
from tests.support.documentation import ROOT
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
        until_true(lambda: bool(set(cluster.releases()) - before))
    finally:
        running.kill()
        running.wait()
        cluster.hold.clear()


def until_true(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("Helm did not get that far")


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
