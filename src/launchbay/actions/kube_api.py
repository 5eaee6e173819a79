"""The calls of the Kubernetes API that `kubernetes.apply` makes, over the checked HTTP client."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from launchbay import limits
from launchbay.actions.kube_access import KubeAccess
from launchbay.egress.http import OutgoingAnswer, OutgoingHttp
from launchbay.errors import ActionFailed, OutgoingFailed

FIELD_MANAGER = "launchbay"
_RETRYABLE = frozenset((408, 409, 429))


class ObjectRef(NamedTuple):
    """One object of a cluster; the namespace is empty for what belongs to none."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {where}{self.name}"


class _Resource(NamedTuple):
    plural: str
    is_namespaced: bool


class KubeApi:
    """One cluster. Its methods raise ActionFailed."""

    def __init__(self, outgoing: OutgoingHttp, access: KubeAccess) -> None:
        self._outgoing = outgoing
        self._access = access
        self._resources: dict[str, dict[str, _Resource]] = {}

    async def place(self, found: Mapping[str, Any], namespace: str) -> ObjectRef:
        """Return where an object belongs: in the given namespace, if it names none and its kind has one."""
        api_version, kind, metadata = found["apiVersion"], found["kind"], found["metadata"]
        resource = await self._resource(api_version, kind)
        own = str(metadata.get("namespace") or namespace) if resource.is_namespaced else ""
        return ObjectRef(api_version, kind, own, metadata["name"])

    async def apply(self, ref: ObjectRef, body: Mapping[str, Any], *, force: bool) -> tuple[dict[str, Any], bool]:
        """Apply an object on the server's side; return it, and whether it is new."""
        query = urlencode({"fieldManager": FIELD_MANAGER, "force": str(force).lower()})
        answer = await self._ask(
            "PATCH", f"{await self._path(ref)}?{query}", msgspec.json.encode(body), "application/apply-patch+yaml"
        )
        return self._read(answer, f"{ref} cannot be applied"), answer.status == 201

    async def read(self, ref: ObjectRef) -> dict[str, Any] | None:
        """Return an object as it is now, None where it is gone."""
        answer = await self._ask("GET", await self._path(ref))
        return None if answer.status == 404 else self._read(answer, f"{ref} cannot be read")

    async def delete(self, ref: ObjectRef) -> None:
        """Ask for the end of an object and of what belongs to it; one that is gone is a success."""
        body = msgspec.json.encode({"propagationPolicy": "Foreground"})
        answer = await self._ask("DELETE", await self._path(ref), body, "application/json")
        if answer.status != 404:
            self._read(answer, f"{ref} cannot be deleted")

    async def _path(self, ref: ObjectRef) -> str:
        resource = await self._resource(ref.api_version, ref.kind)
        namespace = f"/namespaces/{quote(ref.namespace, safe='')}" if resource.is_namespaced else ""
        return f"{_root(ref.api_version)}{namespace}/{resource.plural}/{quote(ref.name, safe='')}"

    async def _resource(self, api_version: str, kind: str) -> _Resource:
        """Find out how the server calls a kind; a definition that was just applied may take a moment."""
        for pause_s in (0.0, 0.5, 1.0, 2.0):
            await asyncio.sleep(pause_s)
            known = self._resources.get(api_version, {})
            if kind not in known:
                known = self._resources[api_version] = await self._discover(api_version)
            if kind in known:
                return known[kind]
        raise ActionFailed(
            f"The cluster has no kind {kind!r} in {api_version!r}.",
            "Correct apiVersion and kind, or apply its definition before.",
        )

    async def _discover(self, api_version: str) -> dict[str, _Resource]:
        answer = await self._ask("GET", _root(api_version))
        if answer.status == 404:
            return {}
        listed = self._read(answer, f"The kinds of {api_version} cannot be read").get("resources") or []
        return {
            str(each["kind"]): _Resource(str(each["name"]), bool(each.get("namespaced")))
            for each in listed
            if isinstance(each, dict) and "/" not in str(each.get("name", "/")) and each.get("kind")
        }

    async def _ask(self, method: str, path: str, body: bytes = b"", media_type: str = "") -> OutgoingAnswer:
        headers = {"Accept": "application/json"}
        if media_type:
            headers["Content-Type"] = media_type
        if self._access.token:
            headers["Authorization"] = f"Bearer {self._access.token}"
        url = self._access.server.rstrip("/") + path
        try:
            return await self._outgoing.request(
                method, url, headers=headers, body=body, timeout_s=limits.KUBERNETES_CALL_S
            )
        except OutgoingFailed as error:
            raise ActionFailed(*error.sentences, retryable=error.retryable) from error

    def _read(self, answer: OutgoingAnswer, problem: str) -> dict[str, Any]:
        try:
            document = msgspec.json.decode(answer.body)
        except msgspec.DecodeError:
            document = None
        if 200 <= answer.status < 300 and isinstance(document, dict):
            return document
        message = str(document.get("message", "")) if isinstance(document, dict) else ""
        raise ActionFailed(
            f"{problem}: the cluster answered {answer.status}" + (f": {message[:500]}" if message else "."),
            retryable=answer.status >= 500 or answer.status in _RETRYABLE,
        )


@asynccontextmanager
async def kube_api(outgoing: OutgoingHttp, access: KubeAccess) -> AsyncIterator[KubeApi]:
    """Give the API of a cluster."""
    client = outgoing.trusting(await asyncio.to_thread(access.ssl_context))
    try:
        yield KubeApi(client, access)
    finally:
        await client.aclose()


def _root(api_version: str) -> str:
    segments = [quote(segment, safe="") for segment in api_version.split("/")]
    return "/api/" + segments[0] if len(segments) == 1 else "/apis/" + "/".join(segments)
