"""An API server of Kubernetes for tests, written from the API's documentation: no real one can be installed here.

It speaks HTTP or TLS on loopback and does what `kubernetes.apply` rests on: discovery, server-side apply with field
managers and their conflicts, reads, deletion with finalizers, and answers of the kind `Status`. Where a real one has
controllers, a test says how many reads an object takes until it is ready.
"""

import asyncio
import copy
import json
import logging
import os
import secrets
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from importlib import import_module
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import flask
import httpx
import pytest
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from joserfc import jwt
from joserfc.jwk import RSAKey
from werkzeug.serving import make_server

from launchbay.egress.mail import MailServer
from tests.support.pages import ORIGIN, Page, browser
from tests.support.service import Api

TOKEN = "an-admin-token-of-tests"
KINDS: dict[str, list[tuple[str, str, bool]]] = {
    "v1": [
        ("Namespace", "namespaces", False),
        ("ConfigMap", "configmaps", True),
        ("Service", "services", True),
        ("Secret", "secrets", True),
    ],
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
    at_random: Callable[[], dict[str, Any]] = dict  # what each dry run decides anew, as a webhook may
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
            if query.get("dryRun") == ["All"]:
                return self._tried(path, query, headers, json.loads(body))
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

    def _tried(self, path: str, query: dict[str, list[str]], headers: dict[str, str], body: Any) -> tuple[int, Any]:
        """Answer what an application would make of an object, and keep the one that is there."""
        before = {name: copy.deepcopy(kept.get(path)) for name, kept in self._kept().items()}
        try:
            status, found = self._apply(path, query, headers, body)
            return status, {**found, **(self.at_random() if status < 300 else {})}
        finally:
            for name, kept in self._kept().items():
                kept.pop(path, None)
                if before[name] is not None:
                    kept[path] = before[name]

    def _kept(self) -> dict[str, dict[str, Any]]:
        return {"objects": self.objects, "managers": self.managers, "reads": self.reads}

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
        former = [name for name, owner in managers.items() if owner == manager]
        for name in [name for name in former if name not in fields]:
            del managers[name]  # what its manager leaves out goes
        body = copy.deepcopy(body)
        for keys, value in _values({key: now[key] for key in ("spec", "data") if key in now}):
            if ".".join(keys) not in (*former, *fields):  # somebody else's
                _set(body, keys, value)
        managers.update(dict.fromkeys(fields, manager))
        kept = {"uid": now["metadata"]["uid"], "generation": now["metadata"]["generation"] + 1}
        self.objects[path] = {**body, "metadata": {**body["metadata"], **kept}, "status": {}}
        self.reads[path] = 0
        return (201 if is_new else 200), self.objects[path]


def _fields(value: Any, path: str = "") -> list[str]:
    if not isinstance(value, dict):
        return [path]
    return [name for key, inner in value.items() for name in _fields(inner, f"{path}.{key}".lstrip("."))]


def _values(value: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    if not isinstance(value, dict):
        return [(path, value)]
    return [found for key, inner in value.items() for found in _values(inner, (*path, key))]


def _set(body: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        body = body.setdefault(key, {})
    body[path[-1]] = value


def _status(code: int, message: str) -> tuple[int, Any]:
    return code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}


@asynccontextmanager
async def kube_server(context: ssl.SSLContext | None = None) -> AsyncIterator[KubeServer]:
    found = KubeServer(scheme="http" if context is None else "https")
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0, ssl=context)
    found.port = server.sockets[0].getsockname()[1]
    async with server:
        yield found


USER, PASSWORD = "bay", "opensesame-1"


@dataclass
class Postbox:
    """The letters, with who they were handed over for; `refuses` are receivers that it does not take, with words.

    It says the words of `puts_off` to a receiver as often as there are, and then takes the receiver. A letter for one
    receiver alone gets the words of `refuses_alone`.
    """

    letters: list[EmailMessage] = field(default_factory=list)
    receivers: list[list[str]] = field(default_factory=list)
    refuses: dict[str, str] = field(default_factory=dict)
    refuses_all: str | None = None
    refuses_alone: str | None = None
    puts_off: dict[str, list[str]] = field(default_factory=dict)
    was_encrypted: list[bool] = field(default_factory=list)
    was_signed_in: list[bool] = field(default_factory=list)
    server: MailServer = field(default_factory=lambda: MailServer(host="", port=1, sender=""))

    async def handle_RCPT(  # noqa: N802 - the library's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.refuses:
            return self.refuses[address]
        if self.puts_off.get(address):
            return self.puts_off[address].pop(0)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 - the library's name
        if self.refuses_all is not None:
            return self.refuses_all
        if self.refuses_alone is not None and len(envelope.rcpt_tos) == 1:
            return self.refuses_alone
        assert isinstance(envelope.content, bytes)
        letter: Any = message_from_bytes(envelope.content, policy=policy.default)
        self.letters.append(letter)
        self.receivers.append(list(envelope.rcpt_tos))
        assert server.transport is not None
        self.was_encrypted.append(server.transport.get_extra_info("sslcontext") is not None)
        self.was_signed_in.append(bool(session.authenticated))
        return "250 OK"


def made_certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for 127.0.0.1 and return it with its key."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-days", "2", "-subj", "/CN=mail.test", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, *names, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


@asynccontextmanager
async def postbox(security: str = "none", certificate: tuple[Path, Path] | None = None) -> AsyncIterator[Postbox]:
    """Run a server; with `tls` or `starttls` it wants a sign-in too."""
    box = Postbox()
    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)

    def authenticated(_server: SMTP, _session: Session, _envelope: Envelope, mechanism: str, given: Any) -> AuthResult:
        is_right = isinstance(given, LoginPassword) and (given.login, given.password) == (
            USER.encode(),
            PASSWORD.encode(),
        )
        return AuthResult(success=is_right, handled=False)

    more: dict[str, Any] = {"auth_required": True, "authenticator": authenticated, "auth_require_tls": False}
    if security == "starttls":
        more |= {"tls_context": context, "require_starttls": True}
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: SMTP(box, hostname="mail.test", loop=loop, **({} if security == "none" else more)),
        "127.0.0.1",
        0,
        ssl=context if security == "tls" else None,
    )
    async with server:
        box.server = MailServer(
            host="127.0.0.1",
            port=server.sockets[0].getsockname()[1],
            sender="Launchbay <bay@example.org>",
            security=security,
            user="" if security == "none" else USER,
            password=PASSWORD,
            ca_file="" if certificate is None else str(certificate[0]),
        )
        yield box


# Where requirements/tofu installs Terraform, for machines that have neither program.
_PROGRAMS = Path(__file__).parents[2] / ".venv" / "tofu" / "programs"
if shutil.which("tofu") is None and shutil.which("terraform") is None and _PROGRAMS.exists():
    os.environ["PATH"] = f"{os.environ['PATH']}{os.pathsep}{_PROGRAMS}"
TERRAFORM = shutil.which("terraform") or shutil.which("tofu")
needs_tofu = pytest.mark.skipif(TERRAFORM is None, reason="requirements/tofu could not install Terraform")
# What it makes is a file, by the one resource that is built into the program.
MODULE = """
variable "place" { type = string }
variable "size" { default = 1 }
resource "terraform_data" "file" {
  input            = var.place
  triggers_replace = var.size
  provisioner "local-exec" {
    command = "echo ${var.size} >> ${self.input}"
  }
  provisioner "local-exec" {
    when    = destroy
    command = "rm -f ${self.input}"
  }
}
output "place" { value = terraform_data.file.output }
output "password" {
  value     = "hunter22-${var.size}"
  sensitive = true
}
"""

_TOFU = """
launch:
  steps:
    - infra:
        action: opentofu
        parameters:
          name: shop
          variables: {{ place: "{file}", size: 1 }}
          module: |
{module}
        output: {{ found: outputs }}
"""


def tofu_manifest(file: Path | str, module: str = MODULE) -> str:
    """Return a manifest whose launch applies a module, which makes the file unless it is another one."""
    # Braces of the module's own language are doubled in a manifest's parameters, and `$` is written twice.
    text = module.replace("${", "$$${").replace("{", "{{").replace("}", "}}").replace("$$${{", "$${{")
    block = "\n".join(f"            {line}" for line in text.strip().splitlines())
    return _TOFU.format(file=file, module=block)


Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@dataclass
class Asked:
    """A request that the provider got."""

    path: str
    headers: dict[str, str]
    form: dict[str, str]


@dataclass
class Provider:
    """The provider. `port` is where it listens, `asked` what it was asked, in order."""

    port: int
    asked: list[Asked] = field(default_factory=list)
    app: Any = None

    @property
    def issuer(self) -> str:
        return f"http://localhost:{self.port}"

    async def know(self, subject: str, **claims: Any) -> None:
        """Let somebody have these claims from now on."""
        async with httpx.AsyncClient() as client:
            answer = await client.put(f"{self.issuer}/users/{subject}", json=claims)
            assert answer.status_code == 204, answer.text

    def logout_token(self, **changes: Any) -> str:
        """Return a logout token with these claims (Back-Channel Logout 1.0, section 2.4); None leaves one out."""
        with self.app.test_request_context():
            self.app.preprocess_request()
            key = RSAKey.import_key(flask.g.oidc_provider_mock_storage.jwk.as_dict(is_private=True))
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": "launchbay",
            "iat": now,
            "exp": now + 120,
            "jti": secrets.token_hex(8),
            "events": {"http://schemas.openid.net/event/backchannel-logout": {}},
            **changes,
        }
        told = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode({"alg": "RS256", "typ": "logout+jwt"}, told, key)

    def token_requests(self) -> list[Asked]:
        return [asked for asked in self.asked if asked.path == "/oauth2/token"]


@contextmanager
def identity_provider(*, is_strict: bool = True) -> Iterator[Provider]:
    """Run a provider that insists on a nonce."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    # By name and late: it warns, and few tests need it.
    app = import_module("oidc_provider_mock").app(require_nonce=is_strict)
    provider = Provider(0, app=app)
    server = make_server("localhost", 0, _recording(app, provider), threaded=True)
    provider.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join(5)
        server.server_close()


# The settings of a server that is the provider's client, but for the issuer.
OPENID_CLIENT: dict[str, Any] = {
    "oidc_client_id": "launchbay",
    "oidc_client_secret": "client-secret",
    "base_url": ORIGIN,
}


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    """A provider on loopback."""
    with identity_provider() as provider:
        yield provider


def _recording(app: Wsgi, provider: Provider) -> Wsgi:
    def call(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = BytesIO(body)
        headers = {name[5:].lower(): value for name, value in environ.items() if name.startswith("HTTP_")}
        form = {name: values[0] for name, values in parse_qs(body.decode("latin-1")).items()}
        provider.asked.append(Asked(environ["PATH_INFO"], headers, form))
        return app(environ, start_response)

    return call


async def begin(client: httpx.AsyncClient) -> str:
    """Follow the link of the page, and return where it leads."""
    answer = await client.get("/signIn/openid")
    assert answer.status_code == 302, answer.text
    return str(answer.headers["location"])


async def consent(url: str, subject: str, action: str = "authorize") -> str:
    """Sign in at the provider, and return where it sends the browser."""
    async with httpx.AsyncClient() as client:
        form = await client.get(url)
        assert form.status_code == 200, form.text
        answer = await client.post(url, data={"sub": subject, "action": action})
        assert answer.status_code == 302, answer.text
        return str(answer.headers["location"])


async def sign_in(api: Api, subject: str) -> Page:
    """Sign in as somebody whom the provider knows, in a fresh browser."""
    async with browser(api) as client:
        back = await consent(await begin(client), subject)
        return Page(await client.get(back))


def query(url: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
