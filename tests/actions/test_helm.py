"""`helm`, with the stand-in of `stand_ins/helm.py` in the program's place."""

import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from launchbay.actions.contract import ActionCall
from launchbay.actions.helm import Helm, fetch_chart
from launchbay.egress.http import EgressClient
from launchbay.errors import ActionFailed
from launchbay.processes.run import Programs
from launchbay.telemetry.tracing import trace_parent
from tests.support.contexts import RecordingContext, run
from tests.support.eventually import eventually
from tests.support.network import LoopbackServer, answer, loopback_server, packed

HELM = Helm()
CLUSTER = {"server": "https://localhost:6443", "token": "a-token-of-tests", "ca": ""}
CHART = packed({"shop/Chart.yaml": b"name: shop\n"})
INDEX = """
apiVersion: v1
entries:
  shop:
    - {version: 1.9.0, urls: [shop-1.9.0.tgz]}
    - {version: 1.10.0, urls: [charts/shop-1.10.0.tgz]}
    - {version: 2.0.0-rc.1, urls: [shop-2.0.0-rc.1.tgz]}
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a stand-in, where the search for programs looks first; its ledger lies there."""
    directory = tmp_path / "bin"
    directory.mkdir()
    shutil.copy(Path(__file__).with_name("stand_ins") / "helm.py", directory / "helm.py")
    (directory / "helm").write_text(f'#!/bin/sh\nexec {sys.executable} -S "{directory}/helm.py" "$@"\n')
    (directory / "helm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")
    places = tmp_path / "places"
    places.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(places))
    return directory


@pytest.fixture
async def charts() -> AsyncIterator[LoopbackServer]:
    async with loopback_server() as server:
        server.routes["/shop.tgz"] = answer(body=CHART)
        yield server


def here() -> RecordingContext:
    return RecordingContext(programs=Programs(["helm"]))


def releases(program: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((program / "ledger.json").read_text())
    return found


async def refusal(context: RecordingContext, **parameters: Any) -> ActionFailed:
    with pytest.raises(ActionFailed) as caught:
        await run(HELM, context, **parameters)
    return caught.value


async def test_a_release_is_installed_upgraded_and_taken_down(program: Path, charts: LoopbackServer) -> None:
    context, chart = here(), charts.url("/shop.tgz")
    values = {"password": "hunter22", "text": "$(reboot) '\" {{ .Values }}", "list": [1, None]}

    first = await run(HELM, context, cluster=CLUSTER, release="shop", chart=chart, values=values, namespace="prod")
    second = await run(HELM, context, cluster=CLUSTER, release="shop", chart=chart, namespace="prod")

    assert first == {"status": "deployed", "revision": 1, "notes": "Thank you."}
    assert second["revision"] == 2
    assert "hunter22" not in str(context.lines)
    assert ("info", "W1120 warning of the client") in context.lines
    assert list(Path(tempfile.gettempdir()).iterdir()) == []
    await HELM.teardown(ActionCall({}, context), "prod.shop")
    await HELM.teardown(ActionCall({}, context), "prod.shop")  # a recovery may do it again
    assert releases(program) == {}
    assert context.documents.documents == {}


async def test_the_program_gets_the_trace_of_its_step(program: Path, charts: LoopbackServer) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    token = trace_parent.set(trace)
    try:
        await run(HELM, here(), cluster=CLUSTER, release="shop", chart=charts.url("/shop.tgz"))
    finally:
        trace_parent.reset(token)
    assert releases(program)["default/shop"]["trace"] == trace


async def test_the_program_gets_everything_in_files_and_dials_the_checked_address(
    program: Path, charts: LoopbackServer
) -> None:
    values = {"a": "$(reboot)"}

    await run(
        HELM,
        here(),
        cluster=CLUSTER,
        release="shop",
        chart=charts.url("/shop.tgz"),
        values=values,
        createNamespace=True,
        wait=False,
        timeout="2 minutes",
    )

    made = releases(program)["default/shop"]
    assert made["values"] == values
    assert made["chart"] == "shop/Chart.yaml"
    [cluster] = made["config"]["clusters"]
    assert cluster["cluster"]["server"] in ("https://127.0.0.1:6443", "https://[::1]:6443")
    assert cluster["cluster"]["tls-server-name"] == "localhost"
    assert made["config"]["users"][0]["user"] == {"token": "a-token-of-tests"}
    assert "$(reboot)" not in str(made["argv"])
    assert "a-token-of-tests" not in str(made["argv"])
    assert "--create-namespace" in made["argv"]
    assert "--wait" not in made["argv"]
    assert made["argv"][-2:] == ["--timeout", "120s"]
    assert set(made["environment"]) - {"LC_CTYPE", "PWD", "SHLVL", "_"} == {
        "HOME",
        "KUBECONFIG",
        "LANG",
        "PATH",
        "TMPDIR",
    }


async def test_a_failure_is_told_and_the_release_is_known_all_the_same(program: Path, charts: LoopbackServer) -> None:
    context = here()

    error = await refusal(
        context,
        cluster=CLUSTER,
        release="shop",
        chart=charts.url("/shop.tgz"),
        values={"fail": "no room, password=hunter22"},
    )

    assert "UPGRADE FAILED: no room" in str(error)
    assert "hunter22" not in str(error)
    assert list(context.documents.documents) == ["default.shop"]
    await HELM.teardown(ActionCall({}, context), "default.shop")
    assert context.documents.documents == {}


async def test_a_workflow_may_uninstall_it_before(program: Path, charts: LoopbackServer) -> None:
    context = here()
    await run(HELM, context, cluster=CLUSTER, release="shop", chart=charts.url("/shop.tgz"))

    outputs = await run(HELM, context, release="shop", operation="uninstall")

    assert outputs["status"] == "uninstalled"
    assert releases(program) == {}


@pytest.mark.slow
async def test_cancelling_ends_the_program(program: Path, charts: LoopbackServer) -> None:
    parameters = {"cluster": CLUSTER, "release": "shop", "chart": charts.url("/shop.tgz"), "values": {"sleep": 600}}
    context = here()
    running = asyncio.create_task(HELM.run(ActionCall(parameters, context)))
    await eventually(lambda: context.lines)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert list(Path(tempfile.gettempdir()).iterdir()) == []


@pytest.mark.parametrize(
    ("version", "path"),
    [(None, "/r/charts/shop-1.10.0.tgz"), ("1.9.0", "/r/shop-1.9.0.tgz"), ("2.0.0-rc.1", "/r/shop-2.0.0-rc.1.tgz")],
)
async def test_a_chart_is_found_in_its_repository(
    charts: LoopbackServer, tmp_path: Path, version: str | None, path: str
) -> None:
    charts.routes["/r/index.yaml"] = answer(body=INDEX.encode())
    charts.routes[path] = answer(body=CHART)
    parameters = {"repository": charts.url("/r"), "chart": "shop", "version": version}

    file = await fetch_chart(ActionCall(parameters, here()), tmp_path)

    assert file.read_bytes() == CHART
    assert charts.received[-1].target == path


@pytest.mark.parametrize("index", [b"", b"[", b"entries: 3", b"entries: {shop: []}", b"entries: {shop: [{}]}", b"\xff"])
async def test_a_repository_that_cannot_be_read_is_told(charts: LoopbackServer, tmp_path: Path, index: bytes) -> None:
    charts.routes["/index.yaml"] = answer(body=index)
    call = ActionCall({"repository": charts.url(), "chart": "shop"}, here())

    with pytest.raises(ActionFailed, match=r"index\.yaml has no valid chart 'shop'"):
        await fetch_chart(call, tmp_path)


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"release": None}, "'release' is missing"),
        ({"release": "--debug"}, "'release' is wrong"),
        ({"release": "a" * 54}, "'release' is wrong"),
        ({"namespace": "-n"}, "'namespace' is wrong"),
        ({"operation": "rollback"}, "'operation' is wrong"),
        ({"cluster": None}, "'cluster' is missing"),
        ({"chart": None}, "'chart' is missing"),
        ({"chart": "--post-renderer=/bin/sh"}, "'chart' is wrong"),
        ({"chart": "oci://registry.example/shop"}, "oci://"),
        ({"values": [1]}, "'values' is wrong"),
        ({"wait": "perhaps"}, "'wait' is wrong"),
    ],
)
async def test_a_wrong_parameter_is_named(
    program: Path, charts: LoopbackServer, parameters: dict[str, Any], named: str
) -> None:
    given = {"cluster": CLUSTER, "release": "shop", "chart": charts.url("/shop.tgz"), **parameters}

    error = await refusal(here(), **given)

    assert named in str(error)
    assert not error.retryable
    assert not (program / "ledger.json").exists()


async def test_a_cluster_that_the_address_rules_forbid_is_not_dialled(program: Path, charts: LoopbackServer) -> None:
    context = here()
    context.egress = EgressClient()
    metadata = {**CLUSTER, "server": "https://169.254.169.254"}

    with pytest.raises(ActionFailed):
        await run(HELM, context, cluster=metadata, release="shop", chart="https://127.0.0.1/shop.tgz")

    assert not (program / "ledger.json").exists()


async def test_nothing_runs_where_the_operator_does_not_allow_it_or_the_program_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error = await refusal(RecordingContext(), release="shop")
    assert "LAUNCHBAY_SERVER_PROGRAMS=helm" in str(error)

    monkeypatch.setattr("launchbay.processes.run.search_path", lambda: "/nonexistent")
    error = await refusal(here(), release="shop")
    assert "There is no helm on this server. An administrator can install Helm 3 or newer." in str(error)
