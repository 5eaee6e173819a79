"""A small API server of Kubernetes that the real Helm works with: namespaces, secrets and config maps.

It asks for no token: Helm sends none to a server without TLS.
"""

import base64
import copy
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "a-token-of-tests"
_KINDS = {"namespaces": "Namespace", "secrets": "Secret", "configmaps": "ConfigMap"}
_IN_NAMESPACES = frozenset(("secrets", "configmaps"))
_DEFINITIONS = "apiextensions.k8s.io"
_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]


@dataclass
class HelmCluster:
    """`objects` are by path.

    `hold` is set while changes of config maps must wait, as if a cluster hangs; with `holds_reads`, all of releases.
    """

    port: int = 0
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    hold: threading.Event = field(default_factory=threading.Event)
    held: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    holds_reads: bool = False
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    @property
    def access(self) -> dict[str, Any]:
        return {"server": f"http://127.0.0.1:{self.port}", "token": TOKEN}

    def data(self, name: str, namespace: str = "default") -> dict[str, str]:
        found: dict[str, str] = self.objects[f"/api/v1/namespaces/{namespace}/configmaps/{name}"].get("data", {})
        return found

    def releases(self) -> dict[str, str]:
        """Return the status of each revision that Helm keeps."""
        return {
            each["metadata"]["name"]: each["metadata"]["labels"]["status"]
            for path, each in self.objects.items()
            if "/secrets/sh.helm.release" in path
        }

    def answer(self, method: str, target: str, kind: str, body: bytes) -> tuple[int, Any]:
        path, query = urlsplit(target).path, parse_qs(urlsplit(target).query)
        parts = path.strip("/").split("/")
        match parts:
            case ["version"]:
                return 200, {"major": "1", "minor": "34", "gitVersion": "v1.34.0"}
            case ["api"]:
                return 200, {"kind": "APIVersions", "versions": ["v1"]}
            case ["apis"]:
                version = {"groupVersion": f"{_DEFINITIONS}/v1", "version": "v1"}
                group = {"name": _DEFINITIONS, "versions": [version], "preferredVersion": version}
                return 200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]}
            case ["apis", group, "v1"] if group == _DEFINITIONS:
                kinds = {"customresourcedefinitions": "CustomResourceDefinition"}
                return 200, _resources(kinds, f"{_DEFINITIONS}/v1")
            case ["apis", group, "v1", "customresourcedefinitions", _] if (
                group == _DEFINITIONS and path in self.objects
            ):
                return 200, self.objects[path]
            case ["api", "v1"]:
                return 200, _resources(_KINDS, "v1")
            case ["api", "v1", *rest] if rest[-1] in _KINDS and rest != ["namespaces", rest[-1]]:
                return self._collection(method, path, query, rest[-1], body)
            case ["api", "v1", *_]:
                return self._object(method, path, kind, body)
        return _status(404, f"{path} not found")

    def _collection(
        self, method: str, path: str, query: dict[str, list[str]], plural: str, body: bytes
    ) -> tuple[int, Any]:
        if method == "POST":
            given = _read(body)
            return self._put(f"{path}/{given['metadata']['name']}", given, is_new=True)
        wanted = [each.split("=") for each in query.get("labelSelector", [""])[0].split(",") if each]
        names = [each.split("=")[1] for each in query.get("fieldSelector", [""])[0].split(",") if each]
        items = [
            each
            for key, each in list(self.objects.items())
            if key.rpartition("/")[0] == path
            and all(each["metadata"].get("labels", {}).get(name) == value for name, value in wanted)
            and (not names or each["metadata"]["name"] in names)
        ]
        return 200, {"kind": f"{_KINDS[plural]}List", "apiVersion": "v1", "metadata": {}, "items": items}

    def _object(self, method: str, path: str, kind: str, body: bytes) -> tuple[int, Any]:
        known = self.objects.get(path)
        if method == "PATCH":
            given = _read(body)
            if known is None and "apply" not in kind:
                return _status(404, f"{path} not found")
            merged = given if "apply" in kind else _merge(copy.deepcopy(known or {}), given)
            return self._put(path, {**merged, "metadata": {**(known or {}).get("metadata", {}), **merged["metadata"]}})
        if known is None:
            return _status(404, f"{path} not found")
        if method == "DELETE":
            return 200, self.objects.pop(path)
        return (200, known) if method == "GET" else self._put(path, _read(body))

    def _put(self, path: str, given: dict[str, Any], *, is_new: bool = False) -> tuple[int, Any]:
        with self.lock:
            if is_new and path in self.objects:
                return _status(409, f"{path} already exists")
            plural = path.split("/")[-2]
            number = str(next(self.numbers))
            metadata = {"uid": number, "creationTimestamp": "2026-11-20T13:00:00Z", **given["metadata"]}
            metadata |= {"resourceVersion": number, "name": path.rpartition("/")[2]}
            if "/namespaces/" in path and plural != "namespaces":
                metadata["namespace"] = path.split("/")[4]
            self.objects[path] = {"apiVersion": "v1", "kind": _KINDS[plural], **given, "metadata": metadata}
            return (201 if is_new else 200), self.objects[path]


def _read(body: bytes) -> Any:
    """Return an object from JSON, or a secret from Protocol Buffers, as the library of Kubernetes sends it."""
    if not body.startswith(b"k8s\0"):
        return json.loads(body)
    [raw] = _fields(body[4:])[2]
    secret = _fields(raw)
    metadata = _fields(secret[1][0])
    return {
        "metadata": {"name": metadata[1][0].decode(), "labels": _pairs(metadata.get(11, []))},
        "data": {name: base64.b64encode(value).decode() for name, value in _entries(secret.get(2, []))},
        "type": secret[3][0].decode(),
    }


def _fields(message: bytes) -> dict[int, list[bytes]]:
    """Return the values by the number of their field. Numbers are left out."""
    found: dict[int, list[bytes]] = {}
    position = 0
    while position < len(message):
        key, position = _number(message, position)
        size, position = _number(message, position)
        if key & 7 == 2:
            found.setdefault(key >> 3, []).append(message[position : position + size])
            position += size
    return found


def _number(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position


def _entries(messages: list[bytes]) -> list[tuple[str, bytes]]:
    entries = [_fields(each) for each in messages]
    return [(each[1][0].decode(), each.get(2, [b""])[0]) for each in entries]


def _pairs(messages: list[bytes]) -> dict[str, str]:
    return {name: value.decode() for name, value in _entries(messages)}


def _resources(kinds: Mapping[str, str], version: str) -> dict[str, Any]:
    resources = [
        {"name": plural, "singularName": "", "kind": kind, "namespaced": plural in _IN_NAMESPACES, "verbs": _VERBS}
        for plural, kind in kinds.items()
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}


def _merge(known: Any, given: Any) -> Any:
    if not isinstance(given, dict) or not isinstance(known, dict):
        return given
    for name, value in given.items():
        if value is None:
            known.pop(name, None)
        else:
            known[name] = _merge(known.get(name), value)
    return known


def _status(code: int, message: str) -> tuple[int, dict[str, Any]]:
    reason = {404: "NotFound", 409: "AlreadyExists"}[code]
    return code, {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "code": code,
        "message": message,
    }


@contextmanager
def helm_cluster() -> Iterator[HelmCluster]:
    """Serve a cluster on the loopback address."""
    cluster = HelmCluster()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            is_change = self.command != "GET" and "/configmaps" in self.path
            if cluster.hold.is_set() and (is_change or (cluster.holds_reads and "/secrets" in self.path)):
                cluster.held.set()
                while cluster.hold.is_set():
                    threading.Event().wait(0.02)
            code, document = cluster.answer(self.command, self.path, self.headers.get("content-type", ""), body)
            # An empty message of Protocol Buffers is a description without schemas: nothing is validated by it.
            is_schema = self.path.startswith("/openapi/v2")
            is_empty = is_schema or "watch=" in self.path  # nothing changes while somebody watches
            data = b"" if is_empty else json.dumps(document).encode()
            kind = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf" if is_schema else "application/json"
            self.send_response(200 if is_schema else code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - the names that the server calls

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
            """Write nothing."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 128  # Helm makes many objects at the same time

    with Server(("127.0.0.1", 0), Handler) as server:
        cluster.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield cluster
        finally:
            cluster.hold.clear()
            server.shutdown()
