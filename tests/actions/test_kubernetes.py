"""`kubernetes.apply`, against the API server of `kube_server.py`."""

import base64
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from launchbay.actions.contract import ActionCall
from launchbay.actions.kubernetes import KubernetesApply, unready_reason
from launchbay.egress.http import EgressClient
from launchbay.errors import ActionFailed
from tests.support.contexts import RecordingContext, run
from tests.support.external_services import TOKEN, KubeServer, kube_server, made_certificate
from tests.support.network import answer, loopback_server

APPLY = KubernetesApply()
READY = {
    "observedGeneration": 1,
    "replicas": 2,
    "updatedReplicas": 2,
    "availableReplicas": 2,
    "conditions": [{"type": "Available", "status": "True"}],
}
DOCUMENTS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  replicas: 2
  template: {spec: {containers: [{name: web, image: "shop:1.4", args: [on, 22:22, 010, 2026-11-20]}]}}
---
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {LEVEL: "info"}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
"""


@pytest.fixture
async def cluster() -> AsyncIterator[KubeServer]:
    async with kube_server() as server:
        server.statuses["Deployment"] = READY
        yield server


def access(cluster: KubeServer, **more: Any) -> dict[str, Any]:
    return {"server": cluster.url, "token": TOKEN, **more}


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def refusal(context: RecordingContext, **parameters: Any) -> ActionFailed:
    with pytest.raises(ActionFailed) as caught:
        await run(APPLY, context, **parameters)
    return caught.value


async def test_objects_are_applied_in_an_order_that_works_and_waited_for(cluster: KubeServer) -> None:
    context = RecordingContext()
    cluster.ready_after = 3

    outputs = await run(APPLY, context, cluster=access(cluster), documents=DOCUMENTS)

    assert [(each["kind"], each["namespace"], each["name"]) for each in outputs["objects"]] == [
        ("Namespace", "", "shop"),
        ("Deployment", "shop", "web"),
        ("ConfigMap", "default", "settings"),
    ]
    assert all(each["uid"] for each in outputs["objects"])
    assert outputs["deleted"] == []
    web = cluster.named("web")
    assert web["metadata"]["labels"] == {"app": "web", "launchbay.io/instance": context.instance_id}
    [container] = web["spec"]["template"]["spec"]["containers"]
    assert container["args"] == [True, "22:22", 8, "2026-11-20"]  # as kubectl reads them
    assert len(context.naps) == 3
    assert context.percents == sorted(context.percents)
    assert context.percents[-1] == 100
    assert context.learned == [[TOKEN]]


async def test_applying_again_changes_and_what_is_missing_is_deleted(cluster: KubeServer) -> None:
    context = RecordingContext()
    await run(APPLY, context, cluster=access(cluster), documents=[config_map("a", x="1"), config_map("b", x="1")])
    uid = cluster.named("a")["metadata"]["uid"]

    outputs = await run(APPLY, context, cluster=access(cluster), documents=[config_map("a", x="2")])

    assert outputs["deleted"] == ["ConfigMap default/b"]
    assert cluster.names() == ["a"]
    assert cluster.named("a")["data"] == {"x": "2"}
    assert cluster.named("a")["metadata"]["uid"] == uid


async def test_what_is_missing_may_stay_and_still_goes_at_the_end(cluster: KubeServer) -> None:
    context = RecordingContext()
    await run(APPLY, context, cluster=access(cluster), documents=[config_map("a"), config_map("b")])

    await run(APPLY, context, cluster=access(cluster), documents=[config_map("a")], prune=False)

    assert cluster.names() == ["a", "b"]
    await APPLY.teardown(ActionCall({}, context), "default")
    assert cluster.names() == []


async def test_two_names_do_not_prune_each_other(cluster: KubeServer) -> None:
    context = RecordingContext()
    await run(APPLY, context, cluster=access(cluster), name="one", documents=[config_map("a")])
    await run(APPLY, context, cluster=access(cluster), name="two", documents=[config_map("b")])

    outputs = await run(APPLY, context, cluster=access(cluster), name="one", documents=[])

    assert outputs["deleted"] == ["ConfigMap default/a"]
    assert cluster.names() == ["b"]
    assert list(context.documents.documents) == ["two"]


async def test_everything_is_taken_down_in_reverse_and_waited_for(cluster: KubeServer) -> None:
    context = RecordingContext()
    await run(APPLY, context, cluster=access(cluster), documents=DOCUMENTS)
    cluster.lingering = 2
    cluster.calls.clear()

    await APPLY.teardown(ActionCall({}, context), "default")
    await APPLY.teardown(ActionCall({}, context), "default")  # a recovery may do it again

    assert [path.rpartition("/")[2] for method, path in cluster.calls if method == "DELETE"] == [
        "settings",
        "web",
        "shop",
    ]
    assert cluster.names() == []
    assert context.documents.documents == {}


async def test_what_was_applied_before_a_failure_is_known(cluster: KubeServer) -> None:
    context = RecordingContext()
    cluster.failing["/configmaps/b"] = (500, "etcdserver: request timed out")

    error = await refusal(context, cluster=access(cluster), documents=[config_map("a"), config_map("b")])

    assert error.retryable
    assert "Can't apply ConfigMap default/b: the cluster returned 500: etcdserver" in str(error)
    cluster.failing.clear()
    await APPLY.teardown(ActionCall({}, context), "default")
    assert cluster.names() == []


async def test_fields_of_somebody_else_are_taken_unless_that_is_not_wanted(cluster: KubeServer) -> None:
    await run(APPLY, RecordingContext(), cluster=access(cluster), documents=config_map("a", x="1"))
    [path] = cluster.objects
    cluster.managers[path] = {"data.x": "kubectl"}

    error = await refusal(RecordingContext(), cluster=access(cluster), documents=config_map("a", x="2"), force=False)
    await run(APPLY, RecordingContext(), cluster=access(cluster), documents=config_map("a", x="3"))

    assert 'conflict with "kubectl"' in str(error)
    assert cluster.named("a")["data"] == {"x": "3"}


async def test_what_never_becomes_ready_fails_after_its_time(cluster: KubeServer) -> None:
    context = RecordingContext()
    cluster.statuses["Deployment"] = {**READY, "availableReplicas": 1}

    error = await refusal(context, cluster=access(cluster), documents=DOCUMENTS, timeout="30 seconds")

    assert "Not ready after 30 s: Deployment shop/web: 1 of 2 replicas are available" in str(error)
    assert "Namespace" not in str(error)
    assert 29 <= sum(context.naps) <= 31


async def test_nothing_is_waited_for_where_that_is_not_wanted(cluster: KubeServer) -> None:
    cluster.statuses["Deployment"] = {}

    outputs = await run(APPLY, RecordingContext(), cluster=access(cluster), documents=DOCUMENTS, wait=False)

    assert len(outputs["objects"]) == 3


@pytest.mark.slow
async def test_a_kind_that_a_definition_brings_is_found_when_it_is_there(cluster: KubeServer) -> None:
    thing = {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "a"}}

    error = await refusal(RecordingContext(), cluster=access(cluster), documents=thing)

    assert "no kind 'Thing' in 'example.org/v1'" in str(error)


async def test_what_the_cluster_refuses_is_told(cluster: KubeServer) -> None:
    wrong = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": "many"}}

    refused = await refusal(RecordingContext(), cluster=access(cluster), documents=wrong)
    unknown = await refusal(RecordingContext(), cluster=access(cluster, token="another"), documents=config_map("a"))

    assert "returned 422" in str(refused)
    assert "Invalid value" in str(refused)
    assert not refused.retryable
    assert "returned 401" in str(unknown)
    assert not unknown.retryable


async def test_names_move_no_boundary_of_a_path(cluster: KubeServer) -> None:
    hostile = config_map("../../../api/v1/namespaces/kube-system")

    await refusal(RecordingContext(), cluster=access(cluster), documents=hostile)

    assert cluster.objects == {}


async def test_a_kubeconfig_gives_the_way_in_over_tls(tmp_path: Path) -> None:
    certificate, key = made_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(certificate)
    context.verify_mode = ssl.CERT_OPTIONAL

    def encoded(file: Path) -> str:
        return base64.b64encode(file.read_bytes()).decode()

    async with kube_server(context) as cluster:
        config: dict[str, Any] = {
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [
                {"name": "c", "cluster": {"server": cluster.url, "certificate-authority-data": encoded(certificate)}}
            ],
            "users": [{"name": "u", "user": {"token": TOKEN}}],
        }

        await run(APPLY, RecordingContext(), cluster=yaml.safe_dump(config), documents=config_map("by-token"))
        config["users"][0]["user"] = {
            "client-certificate-data": encoded(certificate),
            "client-key-data": encoded(key),
        }
        by_certificate = RecordingContext()
        await run(APPLY, by_certificate, cluster=config, documents=config_map("by-certificate"))
        del config["clusters"][0]["cluster"]["certificate-authority-data"]
        error = await refusal(RecordingContext(), cluster=config, documents=config_map("not-trusted"))

        assert cluster.names() == ["by-certificate", "by-token"]
        assert key.read_text() in by_certificate.learned[0]
        assert "certificate" in str(error).lower()


@pytest.mark.parametrize(
    ("user", "cluster", "said"),
    [
        ({"exec": {"command": "rm"}}, {}, "a program (exec, auth-provider)"),
        ({"auth-provider": {"name": "gcp"}}, {}, "a program (exec, auth-provider)"),
        ({"token": "t"}, {"insecure-skip-tls-verify": True}, "insecure-skip-tls-verify"),
        ({"token": "t"}, {"server": "file:///etc/passwd"}, "'cluster' is wrong"),
        ({"client-certificate-data": "%%%"}, {}, "'cluster' is wrong"),
    ],
)
async def test_a_kubeconfig_that_asks_for_too_much_is_refused(
    user: dict[str, Any], cluster: dict[str, Any], said: str
) -> None:
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }

    error = await refusal(RecordingContext(), cluster=config, documents=config_map("a"))

    assert said in str(error)
    assert not error.retryable


async def test_a_cluster_that_the_address_rules_forbid_is_not_asked(cluster: KubeServer) -> None:
    context = RecordingContext(egress=EgressClient())

    error = await refusal(context, cluster=access(cluster), documents=config_map("a"))

    assert cluster.calls == []
    assert not error.retryable


async def test_documents_come_from_an_address_too(cluster: KubeServer) -> None:
    async with loopback_server() as server:
        server.routes["/all.yaml"] = answer(body=json.dumps({"kind": "List", "items": [config_map("a")]}).encode())

        outputs = await run(APPLY, RecordingContext(), cluster=access(cluster), url=server.url("/all.yaml"))

    assert [each["name"] for each in outputs["objects"]] == ["a"]


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"documents": None}, "'documents' or 'url'"),
        ({"documents": "a: [", "url": "http://x"}, "'documents' or 'url'"),
        ({"documents": "a: ["}, "'documents' is wrong"),
        ({"documents": "kind: A\nmetadata: {name: a}\n"}, "'documents' is wrong"),
        ({"documents": "x: &a [1]\nx: *a\n"}, "line 2: Duplicate key 'x'"),
        ({"documents": "x: 12345678901234567890\n"}, "line 1: The number 12345678901234567890 exceeds 64 bits"),
        ({"documents": "[" * 50_000}, "more than 64 levels"),
        ({"documents": [config_map("a")] * 501}, "'documents' is wrong"),
        ({"documents": [config_map("a")], "cluster": "x"}, "'cluster' is wrong"),
        ({"documents": [config_map("a")], "cluster": {"token": "t"}}, "'cluster' is wrong"),
        ({"documents": [config_map("a")], "name": "a b"}, "'name' is wrong"),
        ({"documents": [config_map("a")], "prune": "some"}, "'prune' is wrong"),
    ],
)
async def test_a_wrong_parameter_is_named(parameters: dict[str, Any], named: str) -> None:
    error = await refusal(RecordingContext(), **{"cluster": {"server": "https://127.0.0.1:1"}, **parameters})

    assert named in str(error)
    assert not error.retryable


@pytest.mark.parametrize(
    ("kind", "status", "waits"),
    [
        ("ConfigMap", {}, False),
        ("Deployment", {}, True),
        ("Deployment", {"observedGeneration": 1, "updatedReplicas": 1, "availableReplicas": 1, "replicas": 1}, False),
        ("Deployment", {"observedGeneration": 1, "updatedReplicas": 1, "availableReplicas": 1, "replicas": 2}, True),
        ("Deployment", {"observedGeneration": 0, "updatedReplicas": 1, "availableReplicas": 1, "replicas": 1}, True),
        ("StatefulSet", {"observedGeneration": 1, "readyReplicas": 1}, False),
        ("StatefulSet", {"observedGeneration": 1, "readyReplicas": 1, "updateRevision": "2"}, True),
        ("DaemonSet", {"observedGeneration": 1, "desiredNumberScheduled": 0}, False),
        ("DaemonSet", {"observedGeneration": 1, "desiredNumberScheduled": 2, "numberAvailable": 1}, True),
        ("Job", {}, True),
        ("Job", {"conditions": [{"type": "Complete", "status": "True"}]}, False),
        ("Pod", {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}, True),
        ("Pod", {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}, False),
        ("Pod", {"phase": "Succeeded"}, False),
        ("PersistentVolumeClaim", {"phase": "Pending"}, True),
        ("CustomResourceDefinition", {"conditions": [{"type": "Established", "status": "True"}]}, False),
        ("Thing", {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "Working"}]}, True),
        ("Thing", {"conditions": "odd"}, False),
    ],
)
def test_an_object_is_ready_when_its_controller_says_so(kind: str, status: dict[str, Any], waits: bool) -> None:
    found = {"kind": kind, "metadata": {"generation": 1}, "spec": {"replicas": 1}, "status": status}

    assert (unready_reason(found) is not None) is waits


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("Job", {"conditions": [{"type": "Failed", "status": "True", "message": "gave up"}]}),
        ("Pod", {"phase": "Failed", "message": "gave up"}),
        (
            "Deployment",
            {
                "observedGeneration": 1,
                "conditions": [{"type": "Progressing", "reason": "ProgressDeadlineExceeded", "message": "gave up"}],
            },
        ),
    ],
)
def test_an_object_that_has_failed_is_not_waited_for(kind: str, status: dict[str, Any]) -> None:
    with pytest.raises(ActionFailed, match="gave up"):
        unready_reason({"kind": kind, "metadata": {"generation": 1}, "status": status})
