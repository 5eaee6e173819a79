"""The proxies of the pages pass everything on: events at once, large bodies, who sends them, and long waits."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from launchbay.client import Basic, Client, NotFound
from launchbay.limits import LONGEST_WAIT_S, ORGANIZATION_ARCHIVE_BYTES
from tests.support.databases import Databases
from tests.support.documentation import DOCS
from tests.support.proxies import (
    NAME,
    PREFIX,
    PROXIES,
    Configuration,
    apache2,
    haproxy,
    nginx,
    nginx_without_the_path,
    proxied,
)
from tests.support.servers import Bay
from tests.support.service import EMAIL, PASSWORD, Server, serving
from tests.support.shell import Shell

AS_ADMINISTRATOR = (EMAIL, PASSWORD)
LONG = "launch: {steps: [{rest: {action: wait, parameters: {delay: 3600}}}]}\ndestroy: {steps: []}\n"
pytestmark = pytest.mark.slow  # a server and a proxy for each


@pytest.fixture(scope="module")
def server(databases: Databases) -> Iterator[Server]:
    with serving(databases, base_url=f"https://{NAME}", trusted_proxies="127.0.0.1") as running:
        yield running


@pytest.mark.parametrize("configuration", PROXIES)
def test_a_proxy_passes_on_events_large_bodies_and_addresses(configuration: Configuration, server: Server) -> None:
    bay = Bay(server.url)
    application = bay.application(f"long-{configuration.__name__}", LONG)
    with proxied(configuration, server.url, AS_ADMINISTRATOR) as client:
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


@pytest.mark.parametrize("configuration", [nginx, haproxy, apache2])
def test_a_wait_is_answered_within_the_read_timeout_and_cut_beyond_it(
    configuration: Configuration, server: Server
) -> None:
    """The timeout of the page is that of the test, made shorter."""
    bay = Bay(server.url)
    application = bay.application(f"wait-{configuration.__name__}", LONG)
    with proxied(configuration, server.url, AS_ADMINISTRATOR, read_timeout_s=2) as client:
        launched = client.post(f"/api/1/applications/{application}/launch", json={"environmentId": server.environment})
        jobs = client.get(f"/api/1/instances/{launched.json()['id']}/jobs").json()
        path = f"/api/1/jobs/{jobs[0]['id']}"
        assert client.get(path, params={"wait": 1}).status_code == 200
        assert client.get(path, params={"wait": 4}).status_code in {502, 504}


def test_the_timeouts_of_the_pages_are_longer_than_the_longest_wait() -> None:
    text = "".join(
        (DOCS / "howto" / f"{name}.md").read_text("utf-8") for name in ("reverse-proxy", "haproxy-apache", "path")
    )
    shown = re.findall(r"(?:read_timeout |timeout server |timeout=)(\d+)", text)
    assert len(shown) >= 6
    assert all(int(each) > LONGEST_WAIT_S for each in shown)


@pytest.fixture(scope="module")
def server_below_a_path(databases: Databases) -> Iterator[Server]:
    with serving(databases, base_url=f"https://{NAME}{PREFIX}", trusted_proxies="127.0.0.1") as running:
        yield running


@pytest.mark.parametrize("configuration", [*PROXIES, nginx_without_the_path])
def test_everything_is_below_the_path(configuration: Configuration, server_below_a_path: Server) -> None:
    with proxied(configuration, server_below_a_path.url, AS_ADMINISTRATOR, below_path=True) as client:
        assert "Launchbay" not in client.get("/console/signIn").text
        assert client.get(f"{PREFIX}/health/ready").json() == {"status": "ready"}
        assert client.get(f"{PREFIX}/").headers["location"] == f"{PREFIX}/console"
        page = client.get(f"{PREFIX}/console/signIn")
        links = set(re.findall(r'(?:href|src|action)="(/[^"]*)"', page.text))
        assert links
        assert all(each.startswith(f"{PREFIX}/") for each in links), links
        for each in sorted(links):
            assert client.get(each).status_code in {200, 303}, each
        refused = client.get(f"{PREFIX}/api/1/jobs/0123456789abcdef01234567")
        assert refused.json()["docs"].startswith(f"{PREFIX}/docs/codes/")
        assert client.get(refused.json()["docs"]).status_code in {200, 301, 303}
        assert client.get(f"{PREFIX}/api/1/openapi.json").json()["servers"] == [{"url": PREFIX}]


def test_the_client_commands_and_tools_take_the_address_with_the_path(
    server_below_a_path: Server, tmp_path: Path
) -> None:
    address = f"{server_below_a_path.url}{PREFIX}"
    shell = Shell(tmp_path / "config")
    shell.good("login", f"{address}/", "--email", EMAIL, "--password-stdin", stdin=f"{PASSWORD}\n")
    assert server_below_a_path.organization in shell.good("organization", "list")
    missing = "0123456789abcdef01234567"
    assert f"{address}/docs/codes/" in shell.bad(3, "application", "show", missing)
    assert f"{address}/docs/howto/upgrade\n" in shell.good("docs", "upgrade")
    with Client(address, Basic(EMAIL, PASSWORD)) as client:
        assert client.list_organizations()[0].id == server_below_a_path.organization
        with pytest.raises(NotFound) as refused:
            client.read_application(missing)
        assert httpx.get(refused.value.docs).status_code in {200, 301, 303}
    called = httpx.post(
        f"{address}/mcp",
        auth=AS_ADMINISTRATOR,
        headers={"Accept": "application/json, text/event-stream"},
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
        timeout=60,  # the first call loads the package
    )
    assert called.status_code == 200, called.text
    assert "tools" in called.text
