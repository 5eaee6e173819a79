"""How to get into a Kubernetes cluster: from a kubeconfig, or from an address and a token."""

import base64
import binascii
import ssl
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import msgspec

from launchbay.actions.parameters import wrong_parameter
from launchbay.actions.safe_yaml import read_documents
from launchbay.errors import ActionFailed

_EXPECTED = "a kubeconfig (its text or the map), or a map with server and token, and ca where it is needed"
_ONE = "launchbay"
_PROGRAMS = ("exec", "auth-provider")


class KubeAccess(msgspec.Struct, frozen=True):
    """An API server, and what it knows the caller by. Certificates and keys are PEM texts."""

    server: str
    token: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""

    def ssl_context(self) -> ssl.SSLContext:
        """Return what to trust and to show. Raises ActionFailed for what is no certificate or key."""
        try:
            context = ssl.create_default_context(cadata=self.ca or None)
            if self.certificate:
                # The standard library reads a certificate of ours from files alone.
                with tempfile.TemporaryDirectory(prefix="launchbay-") as directory:
                    pair = Path(directory, "pair.pem")
                    pair.touch(mode=0o600)
                    pair.write_text(f"{self.certificate}\n{self.key}\n", "ascii")
                    context.load_cert_chain(pair)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise ActionFailed(
                f"The certificates for {self.server} cannot be read: {error}.", retryable=False
            ) from None
        return context

    def kubeconfig(self, address: str) -> str:
        """Return a kubeconfig for a program that dials this address, which was checked, and still verifies the name."""
        url = httpx.URL(self.server)
        cluster: dict[str, Any] = {"server": str(url.copy_with(host=address))}
        if url.scheme == "https":
            cluster["tls-server-name"] = url.host
        if self.ca:
            cluster["certificate-authority-data"] = _encoded(self.ca)
        user: dict[str, Any] = {"token": self.token} if self.token else {}
        if self.certificate:
            user |= {"client-certificate-data": _encoded(self.certificate), "client-key-data": _encoded(self.key)}
        return msgspec.json.encode(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": _ONE,
                "contexts": [{"name": _ONE, "context": {"cluster": _ONE, "user": _ONE}}],
                "clusters": [{"name": _ONE, "cluster": cluster}],
                "users": [{"name": _ONE, "user": user}],
            }
        ).decode()

    def secrets(self) -> list[str]:
        """Return what must not be shown."""
        return [text for text in (self.token, self.key) if text]


def read_access(value: Any) -> KubeAccess:
    """Return the access that a parameter gives. Raises ActionFailed; nothing of the value is repeated."""
    if isinstance(value, str):
        try:
            [value] = read_documents(value)
        except ValueError as error:
            raise wrong_parameter("cluster", f"{_EXPECTED} ({error})") from None
    if not isinstance(value, Mapping):
        raise wrong_parameter("cluster", _EXPECTED)
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
            "The kubeconfig signs in with a program (exec, auth-provider), which is not started on this server.",
            "Give a token, or a certificate with its key, such as those of a service account.",
            retryable=False,
        )
    if cluster.get("insecure-skip-tls-verify"):
        raise ActionFailed(
            "The kubeconfig does not check the API server's certificate (insecure-skip-tls-verify).",
            "Give certificate-authority-data in its place.",
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
