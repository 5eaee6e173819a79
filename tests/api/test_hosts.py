"""The names by which a server is called, and what a browser keeps when its address is encrypted."""

from typing import Any

import httpx
import pytest

from launchbay.errors import CannotStart
from launchbay.settings import Settings
from tests.support.databases import Databases
from tests.support.network import Wire
from tests.support.service import EMAIL, PASSWORD, Api, accepted, fresh_email, running_api, served


async def status_and_code(port: int, hosts: str, path: str = "/api/1/openapi.json", version: str = "1.1") -> object:
    wire = await Wire.open(port)
    await wire.send(f"GET {path} HTTP/{version}\r\n{hosts}Connection: close\r\n\r\n".encode())
    answer = await wire.answer()
    return answer.status if answer.status == 200 else (answer.status, answer.json()["code"])


async def test_an_invitation_never_leads_to_another_server(api: Api) -> None:
    new = {"email": fresh_email(), "roles": ["Guest"]}
    path = f"organizations/{api.organization}/users"
    forged = await api.client.post(path, json=new, headers={"Host": "evil.test"})
    assert (forged.status_code, forged.json()["code"]) == (421, "UnknownHost")
    assert "LAUNCHBAY_ALLOWED_HOSTS" in forged.json()["errors"][0]
    assert "evil.test" not in (await api.client.post(path, json=new)).text


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ("", (400, "InvalidHost")),
        ("Host: localhost\r\nHost: localhost\r\n", (400, "InvalidHost")),
        ("Host:\r\n", (400, "InvalidHost")),
        ("Host: localhost/@evil.test\r\n", (400, "InvalidHost")),
        ("Host: user@localhost\r\n", (400, "InvalidHost")),
        ("Host: evil.test\r\n", (421, "UnknownHost")),
        ("Host: localhost.evil.test\r\n", (421, "UnknownHost")),
        ("Host: 10.1.2.3\r\n", (421, "UnknownHost")),
        ("Host: LOCALHOST:9000\r\n", 200),  # the port of a tunnel
        ("Host: localhost.\r\n", 200),
        ("Host: [::1]:8080\r\n", 200),
        ("Host: 127.0.0.1\r\n", 200),
        ("Host: launchbay:8080\r\n", 200),  # of LAUNCHBAY_ALLOWED_HOSTS
    ],
)
async def test_a_host_is_accepted_or_refused(api: Api, hosts: str, expected: object) -> None:
    async with served(api) as port:
        assert await status_and_code(port, hosts) == expected


async def test_probes_need_no_name(api: Api) -> None:
    async with served(api) as port:
        for path in ("/health/live", "/health/ready"):
            assert await status_and_code(port, "Host: 10.1.2.3:8080\r\n", path) == 200
            assert await status_and_code(port, "", path, version="1.0") == 200
        assert await status_and_code(port, "", "/health/live") == (400, "InvalidHost")


def test_a_base_url_accepts_every_name_unless_names_are_listed() -> None:
    assert Settings(base_url="https://bay.test").accepted_hosts() is None
    both = Settings(base_url="https://bay.test", allowed_hosts="inner.test, 10.0.0.1").accepted_hosts()
    assert both == frozenset({"bay.test", "inner.test", "10.0.0.1", "127.0.0.1"})
    assert Settings(host="0.0.0.0").accepted_hosts() == frozenset()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"base_url": "bay.example.org"}, "BASE_URL"),
        ({"base_url": "ftp://bay.example.org"}, "BASE_URL"),
        ({"base_url": "https://"}, "BASE_URL"),
        ({"allowed_hosts": "https://bay.example.org"}, "ALLOWED_HOSTS names 'https://bay.example.org'"),
        ({"allowed_hosts": "bay.example.org:443"}, "ALLOWED_HOSTS"),
    ],
)
def test_an_address_that_is_none_prevents_the_start(given: dict[str, Any], message: str) -> None:
    with pytest.raises(CannotStart, match=message):
        Settings(**given)


async def test_browsers_keep_to_an_encrypted_address(databases: Databases, api: Api) -> None:
    url = databases.create()
    async with running_api(url, base_url="https://bay.test", engine=False) as secure:
        transport = httpx.ASGITransport(secure.parts.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://bay.test") as browser:
            signed_in = await browser.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
            assert signed_in.headers["strict-transport-security"] == "max-age=31536000; includeSubDomains"
            [cookie] = signed_in.headers.get_list("set-cookie")
            assert cookie.startswith("__Host-launchbay_session=")
            assert {"Secure", "Path=/", "HttpOnly", "SameSite=Lax"} <= set(cookie.split("; "))
            assert (await browser.get("/console/account")).status_code == 200
            session = browser.cookies["__Host-launchbay_session"]
            browser.cookies.clear()
            # The name without the prefix, which a subdomain could set, opens nothing.
            planted = await browser.get("/console/account", headers={"Cookie": f"launchbay_session={session}"})
            assert planted.status_code == 303
            theme = await browser.post("/console/theme", data={"theme": "dark", "back": "/console"})
            assert "__Host-launchbay_theme=dark; Path=/;" in theme.headers["set-cookie"]
    databases.drop(url)
    assert "strict-transport-security" not in accepted_headers(await api.client.get("organizations"))


def accepted_headers(answer: httpx.Response) -> httpx.Headers:
    accepted(answer)
    return answer.headers


async def test_records_have_the_address_that_a_trusted_proxy_names(databases: Databases) -> None:
    """And only a trusted one's: a header of somebody else is no evidence."""

    async def recorded(sent: str, trusted_proxies: str) -> str:
        async with running_api(databases.create(), engine=False, trusted_proxies=trusted_proxies) as api:
            headers = {"X-Forwarded-For": sent}
            path = f"organizations/{api.organization}/environments"
            accepted(await api.client.post(path, json={"name": "e"}, headers=headers))
            entries = accepted(await api.get(f"organizations/{api.organization}/audit"))
            [entry] = [each for each in entries if each["operation"] == "create_environment"]
            return str(entry["address"])

    assert await recorded("1.1.1.1, 203.0.113.9", trusted_proxies="127.0.0.0/8") == "203.0.113.9"
    assert await recorded("203.0.113.9", trusted_proxies="") == "127.0.0.1"
