"""Access to Kubernetes clusters: kubeconfigs, YAML documents, and the API over checked connections."""

import asyncio
import base64
import binascii
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import httpx
import msgspec

from launchbay import limits
from launchbay.actions.parameters import wrong_parameter
from launchbay.egress.http import EgressClient, EgressResponse
from launchbay.egress.transport import Route
from launchbay.errors import ActionFailed, EgressFailed, InvalidManifest, NotThereYet
from launchbay.manifest.reader import read_kubernetes
from launchbay.manifest.tree import is_null, kubernetes_data
from launchbay.model.scalars import with_texts


def read_documents(text: str) -> list[Any]:
    """Return the non-empty YAML documents as kubectl reads them; numbers remember their text.

    Raises ValueError with the problem and its line.
    """
    try:
        documents = read_kubernetes(text.encode(), limits.KUBERNETES_NODES)
    except InvalidManifest as error:
        found = error.findings[0]
        message = str(found["message"]).rstrip(".").replace("The manifest", "The text").replace("A manifest", "A text")
        raise ValueError(f"line {found['line']}: {message}") from None
    return [kubernetes_data(document) for document in documents if not is_null(document)]


_EXPECTED = "a kubeconfig (text or a map), or a map with server, token and optionally ca"
_ENTRY = "launchbay"
_PROGRAMS = ("exec", "auth-provider")


class KubeAccess(msgspec.Struct, frozen=True):
    """An API server and the caller's credentials. Certificates and keys are in PEM format."""

    server: str
    token: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""

    @property
    def place(self) -> str:
        """The server as one text, however it is written.

        It is in lower case, without its usual port and a last slash.
        """
        try:
            return str(httpx.URL(self.server)).rstrip("/")
        except httpx.InvalidURL:
            return self.server

    def ssl_context(self) -> ssl.SSLContext:
        """Return the TLS context. Raises ActionFailed for an invalid certificate or key."""
        try:
            context = ssl.create_default_context(cadata=self.ca or None)
            if self.certificate:
                # The standard library reads client certificates only from files.
                with tempfile.TemporaryDirectory(prefix="launchbay-") as directory:
                    pair = Path(directory, "pair.pem")
                    pair.touch(mode=0o600)
                    pair.write_text(f"{self.certificate}\n{self.key}\n", "ascii")
                    context.load_cert_chain(pair)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise ActionFailed(f"Invalid certificate or key for {self.server}: {error}.", retryable=False) from None
        return context

    def kubeconfig(self, route: Route) -> str:
        """Return a kubeconfig that connects to a checked address, or through the proxy.

        It still verifies the server's name.
        """
        url = httpx.URL(self.server)
        if route.proxy is None:
            cluster: dict[str, Any] = {"server": str(url.copy_with(host=route.addresses[0]))}
            if url.scheme == "https":
                cluster["tls-server-name"] = url.host
        else:
            cluster = {"server": self.server, "proxy-url": route.proxy.url_with_credentials}
        if self.ca:
            cluster["certificate-authority-data"] = _encoded(self.ca)
        user: dict[str, Any] = {"token": self.token} if self.token else {}
        if self.certificate:
            user |= {"client-certificate-data": _encoded(self.certificate), "client-key-data": _encoded(self.key)}
        return msgspec.json.encode(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": _ENTRY,
                "contexts": [{"name": _ENTRY, "context": {"cluster": _ENTRY, "user": _ENTRY}}],
                "clusters": [{"name": _ENTRY, "cluster": cluster}],
                "users": [{"name": _ENTRY, "user": user}],
            }
        ).decode()

    def secrets(self) -> list[str]:
        return [text for text in (self.token, self.key) if text]


def read_access(value: Any) -> KubeAccess:
    """Return the access in a parameter. Raises ActionFailed without repeating the value."""
    if isinstance(value, str):
        try:
            [value] = read_documents(value)
        except ValueError as error:
            raise wrong_parameter("cluster", f"{_EXPECTED} ({error})") from None
    if not isinstance(value, Mapping):
        raise wrong_parameter("cluster", _EXPECTED)
    value = with_texts(value)  # all of a kubeconfig is text
    access = _of_kubeconfig(value) if "clusters" in value else _plain(value)
    if not access.server.startswith(("https://", "http://")):
        raise wrong_parameter("cluster", f"{_EXPECTED}; the server is an https:// address")
    return access


def _plain(value: Mapping[str, Any]) -> KubeAccess:
    try:
        return msgspec.convert(dict(value), KubeAccess)
    except msgspec.ValidationError as error:
        raise wrong_parameter("cluster", f"{_EXPECTED} ({error})") from None


def _of_kubeconfig(config: Mapping[str, Any]) -> KubeAccess:
    context = _named(config, "contexts", config.get("current-context"), "context")
    cluster = _named(config, "clusters", context.get("cluster"), "cluster")
    user = _named(config, "users", context.get("user"), "user")
    if any(user.get(each) for each in _PROGRAMS):
        raise ActionFailed(
            "The kubeconfig signs in with a program (exec, auth-provider), which this server doesn't run.",
            "Use a token, or a certificate with its key, such as those of a service account.",
            retryable=False,
        )
    if cluster.get("insecure-skip-tls-verify"):
        raise ActionFailed(
            "The kubeconfig doesn't verify the API server's certificate (insecure-skip-tls-verify).",
            "Use certificate-authority-data instead.",
            retryable=False,
        )
    return KubeAccess(
        server=str(cluster.get("server") or ""),
        token=str(user.get("token") or ""),
        ca=_decoded(cluster, "certificate-authority-data"),
        certificate=_decoded(user, "client-certificate-data"),
        key=_decoded(user, "client-key-data"),
    )


def _named(config: Mapping[str, Any], several: str, name: object, kind: str) -> Mapping[str, Any]:
    entries = config.get(several)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, Mapping) and entry.get("name") == name and isinstance(entry.get(kind), Mapping):
            found: Mapping[str, Any] = entry[kind]
            return found
    raise wrong_parameter("cluster", f"a kubeconfig that has the {kind} {str(name)[:80]!r}")


def _decoded(entry: Mapping[str, Any], name: str) -> str:
    text = entry.get(name)
    if not text:
        return ""
    with suppress(binascii.Error, ValueError):
        return base64.b64decode(str(text), validate=True).decode("ascii")
    raise wrong_parameter("cluster", f"base64 of PEM in {name}")


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")


FIELD_MANAGER = "launchbay"
_RETRYABLE = frozenset((408, 409, 429))


class ObjectRef(NamedTuple):
    """One object of a cluster; the namespace is empty for cluster-wide objects."""

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

    def __init__(self, egress: EgressClient, access: KubeAccess) -> None:
        self._egress = egress
        self._access = access
        self._resources: dict[str, dict[str, _Resource]] = {}

    async def resource_ref(self, found: Mapping[str, Any], namespace: str) -> ObjectRef:
        """Return the reference of an object, in the given namespace if it needs and names none."""
        api_version, kind, metadata = found["apiVersion"], found["kind"], found["metadata"]
        resource = await self._resource(api_version, kind)
        own = str(metadata.get("namespace") or namespace) if resource.is_namespaced else ""
        return ObjectRef(api_version, kind, own, metadata["name"])

    async def apply(
        self, ref: ObjectRef, body: Mapping[str, Any], *, force: bool, dry_run: bool = False
    ) -> tuple[dict[str, Any], bool]:
        """Apply an object on the server side; return it, and whether it is new.

        A dry run stores nothing.
        """
        given = {"fieldManager": FIELD_MANAGER, "force": str(force).lower()}
        query = urlencode({**given, "dryRun": "All"} if dry_run else given)
        response = await self._request(
            "PATCH", f"{await self._path(ref)}?{query}", msgspec.json.encode(body), "application/apply-patch+yaml"
        )
        return self._read(response, f"Can't apply {ref}"), response.status == 201

    async def read(self, ref: ObjectRef) -> dict[str, Any] | None:
        response = await self._request("GET", await self._path(ref))
        return None if response.status == 404 else self._read(response, f"Can't read {ref}")

    async def delete(self, ref: ObjectRef) -> None:
        """Request the deletion of an object and its dependents. Succeeds if it doesn't exist."""
        body = msgspec.json.encode({"propagationPolicy": "Foreground"})
        response = await self._request("DELETE", await self._path(ref), body, "application/json")
        if response.status != 404:
            self._read(response, f"Can't delete {ref}")

    async def _path(self, ref: ObjectRef) -> str:
        resource = await self._resource(ref.api_version, ref.kind)
        namespace = f"/namespaces/{quote(ref.namespace, safe='')}" if resource.is_namespaced else ""
        return f"{_root(ref.api_version)}{namespace}/{resource.plural}/{quote(ref.name, safe='')}"

    async def _resource(self, api_version: str, kind: str) -> _Resource:
        """Return the server's resource of a kind. A definition that was just applied may take a few seconds."""
        for pause_s in (0.0, 0.5, 1.0, 2.0):
            await asyncio.sleep(pause_s)
            known = self._resources.get(api_version, {})
            if kind not in known:
                known = self._resources[api_version] = await self._discover(api_version)
            if kind in known:
                return known[kind]
        raise NotThereYet(
            f"The cluster has no kind {kind!r} in {api_version!r}.",
            "Correct apiVersion and kind, or apply the definition of the kind before.",
        )

    async def _discover(self, api_version: str) -> dict[str, _Resource]:
        response = await self._request("GET", _root(api_version))
        if response.status == 404:
            return {}
        listed = self._read(response, f"Can't read the kinds of {api_version}").get("resources") or []
        return {
            str(each["kind"]): _Resource(str(each["name"]), bool(each.get("namespaced")))
            for each in listed
            if isinstance(each, dict) and "/" not in str(each.get("name", "/")) and each.get("kind")
        }

    async def _request(self, method: str, path: str, body: bytes = b"", media_type: str = "") -> EgressResponse:
        headers = {"Accept": "application/json"}
        if media_type:
            headers["Content-Type"] = media_type
        if self._access.token:
            headers["Authorization"] = f"Bearer {self._access.token}"
        url = self._access.server.rstrip("/") + path
        try:
            return await self._egress.request(
                method, url, headers=headers, body=body, timeout_s=limits.KUBERNETES_CALL_S
            )
        except EgressFailed as error:
            raise ActionFailed(*error.messages, retryable=error.retryable) from error

    def _read(self, response: EgressResponse, problem: str) -> dict[str, Any]:
        try:
            document = msgspec.json.decode(response.body)
        except msgspec.DecodeError:
            document = None
        if 200 <= response.status < 300 and isinstance(document, dict):
            return document
        message = str(document.get("message", "")) if isinstance(document, dict) else ""
        failure = NotThereYet if response.status == 404 else ActionFailed  # such as a namespace
        raise failure(
            f"{problem}: the cluster returned {response.status}" + (f": {message[:500]}" if message else "."),
            retryable=response.status >= 500 or response.status in _RETRYABLE,
        )


@asynccontextmanager
async def kube_api(egress: EgressClient, access: KubeAccess) -> AsyncIterator[KubeApi]:
    client = egress.with_ssl_context(await asyncio.to_thread(access.ssl_context))
    try:
        yield KubeApi(client, access)
    finally:
        await client.aclose()


def _root(api_version: str) -> str:
    segments = [quote(segment, safe="") for segment in api_version.split("/")]
    return "/api/" + segments[0] if len(segments) == 1 else "/apis/" + "/".join(segments)
