"""An API server of Kubernetes for tests, written from the API's documentation: no real one can be installed here.

It speaks HTTP or TLS on loopback and does what `kubernetes.apply` rests on: discovery, server-side apply with field
managers and their conflicts, reads, deletion with finalizers, and answers of the kind `Status`. Where a real one has
controllers, a test says how many reads an object takes until it is ready.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "an-admin-token-of-tests"
KINDS: dict[str, list[tuple[str, str, bool]]] = {
    "v1": [("Namespace", "namespaces", False), ("ConfigMap", "configmaps", True), ("Service", "services", True)],
    "apps/v1": [("Deployment", "deployments", True)],
    "batch/v1": [("Job", "jobs", True)],
    "apiextensions.k8s.io/v1": [("CustomResourceDefinition", "customresourcedefinitions", False)],
}


@dataclass
class KubeServer:
    port: int = 0
    scheme: str = "http"
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)  # by path
    managers: dict[str, dict[str, str]] = field(default_factory=dict)  # path → field → manager
    calls: list[tuple[str, str]] = field(default_factory=list)
    ready_after: int = 0  # reads of an object
    reads: dict[str, int] = field(default_factory=dict)
    failing: dict[str, tuple[int, str]] = field(default_factory=dict)  # the end of a path → status and message
    statuses: dict[str, dict[str, Any]] = field(default_factory=dict)  # kind → status of ready objects
    lingering: int = 0  # reads that a deleted object still is there
    _numbers: Any = field(default_factory=lambda: count(1))

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def named(self, name: str) -> dict[str, Any]:
        [found] = [value for path, value in self.objects.items() if path.endswith(f"/{name}")]
        return found

    def names(self) -> list[str]:
        return sorted(path.rpartition("/")[2] for path in self.objects)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:-2])}
            method, target, _ = head[0].split(" ")
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            certificate = writer.get_extra_info("peercert")
            status, document = self._answer(method, target, headers, body, bool(certificate))
            data = json.dumps(document).encode()
            lines = [f"HTTP/1.1 {status} S", "Content-Type: application/json", f"Content-Length: {len(data)}"]
            writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode() + data)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def _answer(
        self, method: str, target: str, headers: dict[str, str], body: bytes, has_certificate: bool
    ) -> tuple[int, Any]:
        path, query = unquote(urlsplit(target).path), parse_qs(urlsplit(target).query)
        self.calls.append((method, path))
        if headers.get("authorization") != f"Bearer {TOKEN}" and not has_certificate:
            return _status(401, "Unauthorized")
        for end, (status, message) in self.failing.items():
            if path.endswith(end):
                return _status(status, message)
        version = "/".join(path.split("/")[2:3] if path.startswith("/api/") else path.split("/")[2:4])
        if version not in KINDS:
            return _status(404, "the server could not find the requested resource")
        if path == ("/api/" if "/" not in version else "/apis/") + version:
            resources = [
                resource
                for kind, plural, namespaced in KINDS[version]
                for resource in (
                    {"name": plural, "kind": kind, "namespaced": namespaced},
                    {"name": f"{plural}/status", "kind": kind, "namespaced": namespaced},
                )
            ]
            return 200, {"kind": "APIResourceList", "groupVersion": version, "resources": resources}
        if "/namespaces/" in path and path.count("/") > 4:
            namespace = path.split("/namespaces/")[1].split("/")[0]
            if namespace != "default" and f"/api/v1/namespaces/{namespace}" not in self.objects:
                return _status(404, f'namespaces "{namespace}" not found')
        if method == "PATCH":
            return self._apply(path, query, headers, json.loads(body))
        if path not in self.objects:
            return _status(404, f"{path} not found")
        if method == "DELETE":
            assert json.loads(body)["propagationPolicy"] == "Foreground"
            self.objects[path]["metadata"]["deletionTimestamp"] = "2026-11-20T13:00:00Z"
            self.reads[path] = -self.lingering
            if not self.lingering:
                return 200, self.objects.pop(path)
            return 200, self.objects[path]
        return self._read(path)

    def _read(self, path: str) -> tuple[int, Any]:
        found = self.objects[path]
        self.reads[path] = self.reads.get(path, 0) + 1
        if "deletionTimestamp" in found["metadata"]:
            if self.reads[path] >= 0:
                del self.objects[path]
                return _status(404, "gone")
        elif self.reads[path] > self.ready_after:
            found["status"] = self.statuses.get(found["kind"], found.get("status", {}))
        return 200, found

    def _apply(self, path: str, query: dict[str, list[str]], headers: dict[str, str], body: Any) -> tuple[int, Any]:
        assert headers["content-type"] == "application/apply-patch+yaml"
        manager, force = query["fieldManager"][0], query["force"] == ["true"]
        if body["metadata"].get("managedFields"):
            return _status(400, "metadata.managedFields must be nil")
        if body["metadata"]["name"] != path.rpartition("/")[2]:
            return _status(400, "the name of the object does not match the name on the URL")
        if body.get("spec", {}).get("replicas") == "many":
            return _status(422, 'Deployment "web" is invalid: spec.replicas: Invalid value: "string"')
        managers = self.managers.setdefault(path, {})
        fields = _fields({key: body[key] for key in ("spec", "data") if key in body})
        others = [name for name in fields if managers.get(name, manager) != manager]
        if others and not force:
            return _status(409, f'Apply failed with 1 conflict: conflict with "{managers[others[0]]}": .{others[0]}')
        is_new = path not in self.objects
        now = self.objects.setdefault(path, {"metadata": {"uid": f"uid-{next(self._numbers)}", "generation": 0}})
        for name in [name for name, owner in managers.items() if owner == manager and name not in fields]:
            del managers[name]  # what its manager leaves out goes
        managers.update(dict.fromkeys(fields, manager))
        kept = {"uid": now["metadata"]["uid"], "generation": now["metadata"]["generation"] + 1}
        self.objects[path] = {**body, "metadata": {**body["metadata"], **kept}, "status": {}}
        self.reads[path] = 0
        return (201 if is_new else 200), self.objects[path]


def _fields(value: Any, path: str = "") -> list[str]:
    if not isinstance(value, dict):
        return [path]
    return [name for key, inner in value.items() for name in _fields(inner, f"{path}.{key}".lstrip("."))]


def _status(code: int, message: str) -> tuple[int, Any]:
    return code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}


@asynccontextmanager
async def kube_server(context: ssl.SSLContext | None = None) -> AsyncIterator[KubeServer]:
    found = KubeServer(scheme="http" if context is None else "https")
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0, ssl=context)
    found.port = server.sockets[0].getsockname()[1]
    async with server:
        yield found
