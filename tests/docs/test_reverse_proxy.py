"""The proxies of the page pass everything on: events at once, large bodies, and who sends them."""

import json
import os
import shutil
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from launchbay.limits import ORGANIZATION_ARCHIVE_BYTES
from tests.support.databases import Databases
from tests.support.documentation import DOCS, blocks
from tests.support.external_services import made_certificate
from tests.support.servers import Bay, free_ports
from tests.support.service import EMAIL, PASSWORD, Server, serving

PAGE = DOCS / "howto" / "reverse-proxy.md"
NAME = "launchbay.example.org"
PATH = f"{os.environ['PATH']}:/usr/sbin"
WITHIN_S = 20.0
LONG = "launch: {steps: [{rest: {action: wait, parameters: {delay: 3600}}}]}\ndestroy: {steps: []}\n"
pytestmark = pytest.mark.slow  # a server and a proxy for each


@pytest.fixture(scope="module")
def server(databases: Databases) -> Iterator[Server]:
    with serving(databases, base_url=f"https://{NAME}", trusted_proxies="127.0.0.1") as running:
        yield running


def block(language: str) -> str:
    [text] = [each.text for each in blocks(PAGE) if each.language == language]
    return text


def nginx(directory: Path, port: int, server: str, certificate: Path, key: Path) -> list[str]:
    """Write the configuration of the page, without the help of the header that the server sends."""
    site = block("nginx").replace("127.0.0.1:8080", server).replace("443", f"127.0.0.1:{port}")
    site = site.replace("/etc/ssl/launchbay/fullchain.pem", str(certificate))
    site = site.replace("/etc/ssl/launchbay/key.pem", str(key))
    user = "user root;" if os.geteuid() == 0 else ""  # who may read the directory of this test
    paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    temporary = "\n".join(f"{name}_temp_path {directory}/{name};" for name in paths)
    (directory / "nginx.conf").write_text(
        f"{user} daemon off; pid {directory}/pid; error_log stderr; events {{}}\n"
        f"http {{ access_log off; proxy_ignore_headers X-Accel-Buffering;\n{temporary}\n{site} }}\n"
    )
    return ["nginx", "-p", str(directory), "-c", str(directory / "nginx.conf"), "-e", "stderr"]


def caddy(directory: Path, port: int, server: str, certificate: Path, key: Path) -> list[str]:
    site = block("caddy").replace("127.0.0.1:8080", server)
    own = f"{NAME}:{port} {{\n    bind 127.0.0.1\n    tls {certificate} {key}"
    site = site.replace(f"{NAME} {{", own)
    (directory / "Caddyfile").write_text(f"{{\n    admin off\n    auto_https off\n}}\n{site}")
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(directory / "Caddyfile")]


Configuration = Callable[[Path, int, str, Path, Path], list[str]]


@contextmanager
def proxied(configuration: Configuration, server: Server) -> Iterator[httpx.Client]:
    """Run a proxy in front of a server, and give a client of it."""
    if shutil.which(configuration.__name__, path=PATH) is None:
        pytest.skip(f"{configuration.__name__} isn't installed")
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        certificate, key = made_certificate(directory)
        [port] = free_ports(1)
        command = configuration(directory, port, server.url.removeprefix("http://"), certificate, key)
        log = directory / "log"
        with log.open("wb") as output:
            running = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={"PATH": PATH, "HOME": folder},
            )
        try:
            with httpx.Client(
                base_url=f"https://127.0.0.1:{port}",
                headers={"Host": NAME},
                auth=(EMAIL, PASSWORD),
                # From another address than the proxy's own.
                transport=httpx.HTTPTransport(
                    verify=ssl.create_default_context(cafile=str(certificate)), local_address="127.0.0.2"
                ),
                timeout=WITHIN_S,
            ) as client:
                _until_ready(client, running, log)
                yield client
        finally:
            running.terminate()
            running.wait(WITHIN_S)


def _until_ready(client: httpx.Client, proxy: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + WITHIN_S
    while True:
        try:
            assert client.get("/health/ready").json() == {"status": "ready"}
            return
        except httpx.ConnectError:
            assert proxy.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)


@pytest.mark.parametrize("configuration", [nginx, caddy])
def test_a_proxy_passes_on_events_large_bodies_and_addresses(configuration: Configuration, server: Server) -> None:
    bay = Bay(server.url)
    application = bay.application(f"long-{configuration.__name__}", LONG)
    with proxied(configuration, server) as client:
        launched = client.post(f"/api/1/applications/{application}/launch", json={"environmentId": server.environment})
        instance = launched.json()["id"]
        with client.stream("GET", f"/api/1/instances/{instance}/events") as events:
            # The step goes on for an hour, so nothing else follows it.
            assert any('"rest"' in line and '"Executing"' in line for line in events.iter_lines())

        archive = client.get(f"/api/1/organizations/{server.organization}/archive").json()
        body = json.dumps({"archive": archive, "name": "Copy", "plan": True}).encode()
        padded = body + b" " * (ORGANIZATION_ARCHIVE_BYTES - len(body))
        imported = client.post("/api/1/archives", content=padded, headers={"Content-Type": "application/json"})
        assert imported.status_code == 200, imported.text

        forged = {"Forwarded": "for=192.0.2.1", "X-Forwarded-For": "192.0.2.2"}
        email = f"{configuration.__name__}@example.org"
        invited = client.post(
            f"/api/1/organizations/{server.organization}/users",
            json={"email": email, "name": "Ann", "roles": ["Guest"]},
            headers=forged,
        ).json()
        assert invited["invitation"].startswith(f"https://{NAME}/")
        entries = client.get(f"/api/1/organizations/{server.organization}/audit").json()
        [created] = [entry for entry in entries if entry["operation"] == "create_user" and email in json.dumps(entry)]
        assert created["address"] == "127.0.0.2"
        page = client.get("/console/signIn")
        assert page.headers["strict-transport-security"].startswith("max-age=31536000")
