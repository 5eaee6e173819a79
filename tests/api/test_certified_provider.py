"""Signing in through a certified provider: npm's oidc-provider, in a process of its own, with its own forms."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

from launchbay.limits import OPENID_LEEWAY_S
from tests.support.databases import Databases
from tests.support.external_services import OPENID_CLIENT
from tests.support.pages import ORIGIN, browser
from tests.support.servers import free_ports
from tests.support.service import Api, Person, accepted, person, running_api, served, user_named

SCRIPT = Path(__file__).with_name("certified_provider.mjs")
PACKAGE = Path(__file__).parents[2] / "frontend" / "node_modules" / "oidc-provider"
CLIENTS = ("launchbay", "with-sessions", "edwards", "public", "posting")
pytestmark = [
    pytest.mark.slow,  # a provider and a server
    # The provider names the algorithm as it was called before RFC 9864.
    pytest.mark.filterwarnings("ignore:EdDSA is deprecated"),
]


@dataclass
class Told:
    """What the provider knows: people's claims by subject, and how far its clock is ahead."""

    issuer: str
    people: dict[str, Any] = field(default_factory=dict)

    async def know(self, subject: str, **claims: Any) -> None:
        self.people[subject] = {"email_verified": True, **claims}
        await self._tell(people=self.people)

    async def be_ahead(self, seconds: float) -> None:
        await self._tell(skewS=seconds)

    async def _tell(self, **what: Any) -> None:
        async with httpx.AsyncClient() as client:
            assert (await client.put(f"{self.issuer}/told", json=what)).status_code == 204


@contextmanager
def running_provider(port: int, logout_uri: str) -> Iterator[Told]:
    if shutil.which("node") is None or not PACKAGE.exists():
        pytest.skip("oidc-provider is not installed; frontend/packages installs it")
    command = ["node", str(SCRIPT), str(port), f"{ORIGIN}/signIn/openid/callback", logout_uri]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            assert process.stdout is not None
            if process.stdout.readline() != "listening\n":
                errors.seek(0)
                raise AssertionError(errors.read())
            yield Told(f"http://localhost:{port}")
        finally:
            process.terminate()
            process.communicate(timeout=20)


@dataclass
class Way:
    """A server, the provider, and the person between them."""

    api: Api
    provider: Told

    async def member(self, subject: str, **claims: Any) -> Person:
        added = await person(self.api, "Guest")
        await self.provider.know(subject, email=added.email, name=subject.title(), **claims)
        return added


@pytest.fixture(scope="module", params=CLIENTS)
async def way(databases: Databases, request: pytest.FixtureRequest) -> AsyncIterator[Way]:
    """The server as each kind of client that the provider knows."""
    [port] = free_ports(1)
    url = databases.create()
    settings: dict[str, Any] = {**OPENID_CLIENT, "oidc_client_id": request.param, "oidc_groups_claim": "groups"}
    if request.param == "public":
        settings["oidc_client_secret"] = ""
    async with (
        running_api(
            url,
            engine=False,
            oidc_issuer=f"http://localhost:{port}",
            oidc_scopes="openid,email,profile,groups",
            **settings,
        ) as api,
        served(api) as own_port,
    ):
        for name in ("Builder", "Tester"):
            accepted(await api.post(f"organizations/{api.organization}/roles", {"name": name, "permissions": ""}))
        mapped = [{"group": "builders", "roles": ["Builder"]}, {"group": "testers", "roles": ["Tester"]}]
        accepted(await api.put(f"organizations/{api.organization}/groupRoles", mapped))
        with running_provider(port, f"http://127.0.0.1:{own_port}/signIn/openid/logout") as provider:
            yield Way(api, provider)
    databases.drop(url)


@dataclass
class Visitor:
    """A browser with its cookies at both servers."""

    ours: httpx.AsyncClient
    theirs: httpx.AsyncClient
    asked: list[str] = field(default_factory=list)  # what the provider's forms were about

    async def sign_in(self, subject: str, *, refuse: bool = False, **more: str) -> httpx.Response:
        """Go to the provider and back, and return our answer."""
        return await self.ours.get(await self.led_back(await self.begin(**more), subject, refuse=refuse))

    async def begin(self, **more: str) -> str:
        begun = await self.ours.get("/signIn/openid?to=console")
        assert begun.status_code == 302, begun.text
        return str(httpx.URL(begun.headers["location"]).copy_merge_params(more))

    async def led_back(self, address: str, subject: str, *, refuse: bool = False) -> str:
        """Fill in the provider's forms, and return where it leads in the end."""
        answer = await self.theirs.get(address)
        for _ in range(12):
            if answer.is_redirect:
                target = str(answer.url.join(answer.headers["location"]))
                if target.startswith(ORIGIN):
                    return target
                answer = await self.theirs.get(target)
                continue
            assert answer.status_code == 200, answer.text
            [kind] = re.findall(r'name="prompt" value="(\w+)"', answer.text)
            self.asked.append(kind)
            if refuse and kind == "consent":
                [abort] = re.findall(r'href="([^"]*/abort)"', answer.text)
                answer = await self.theirs.get(str(answer.url.join(abort)))
                continue
            [action] = re.findall(r'<form[^>]* action="([^"]+)"', answer.text)
            fields = {"prompt": kind} | ({"login": subject, "password": "any"} if kind == "login" else {})
            answer = await self.theirs.post(str(answer.url.join(action)), data=fields)
        raise AssertionError(f"The provider asks for ever: {self.asked}")

    async def sign_out_there(self, provider: Told) -> None:
        form = await self.theirs.get(f"{provider.issuer}/session/end")
        [secret] = re.findall(r'name="xsrf" value="([^"]+)"', form.text)
        done = await self.theirs.post(f"{provider.issuer}/session/end/confirm", data={"xsrf": secret, "logout": "yes"})
        assert done.status_code in {200, 302, 303}, done.text

    async def is_signed_in(self) -> bool:
        return (await self.ours.get("/console/account")).status_code == 200


@pytest.fixture
async def visitor(way: Way) -> AsyncIterator[Visitor]:
    async with browser(way.api) as ours, httpx.AsyncClient(timeout=30) as theirs:
        yield Visitor(ours, theirs)


@pytest.fixture
async def other(way: Way) -> AsyncIterator[Visitor]:
    async with browser(way.api) as ours, httpx.AsyncClient(timeout=30) as theirs:
        yield Visitor(ours, theirs)


async def test_two_tabs_sign_in_in_any_order(way: Way, visitor: Visitor) -> None:
    await way.member("anna")
    first, second = await visitor.begin(), await visitor.begin()
    back = [await visitor.led_back(second, "anna"), await visitor.led_back(first, "anna")]
    # A link to the callback that somebody else made ends nothing.
    assert (await visitor.ours.get("/signIn/openid/callback?state=theirs&code=x")).status_code == 401
    for address in back:
        ended = await visitor.ours.get(address)
        assert (ended.status_code, ended.headers["location"]) == (303, "/console"), ended.text
    assert visitor.asked == ["login", "consent"]  # the second tab is known there
    assert await visitor.is_signed_in()


async def test_roles_follow_the_groups_that_the_provider_sends(way: Way, visitor: Visitor) -> None:
    who = await way.member("gina", groups=["builders", "others"])
    assert (await visitor.sign_in("gina")).status_code == 303
    assert (await user_named(way.api, who.id))["roles"] == ["Builder", "Guest"]
    await way.provider.know("gina", email=who.email, groups=["testers"])
    assert (await visitor.sign_in("gina")).status_code == 303
    assert (await user_named(way.api, who.id))["roles"] == ["Guest", "Tester"]
    await way.provider.know("gina", email=who.email)
    assert (await visitor.sign_in("gina")).status_code == 303
    assert (await user_named(way.api, who.id))["roles"] == ["Guest"]


async def test_consent_is_asked_again_and_may_be_refused(way: Way, visitor: Visitor) -> None:
    await way.member("carl")
    assert (await visitor.sign_in("carl")).status_code == 303
    refused = await visitor.sign_in("carl", refuse=True, prompt="consent")
    assert refused.status_code == 401
    assert "The provider refused: End-User aborted interaction" in refused.text
    assert (await visitor.sign_in("carl", prompt="consent")).status_code == 303
    assert visitor.asked == ["login", "consent", "consent", "consent"]
    assert await visitor.is_signed_in()


@pytest.mark.parametrize(
    ("ahead_s", "status"),
    [
        (OPENID_LEEWAY_S - 20, 303),
        (-OPENID_LEEWAY_S, 303),
        (OPENID_LEEWAY_S + 60, 401),  # the token is of tomorrow
        (-3 * 3600, 401),  # and was over before it came
    ],
)
async def test_the_clocks_may_differ_by_the_leeway(way: Way, visitor: Visitor, ahead_s: float, status: int) -> None:
    await way.member("olaf")
    # A token from the past is made then, for a browser whose cookies are of today.
    back = await visitor.led_back(await visitor.begin(), "olaf") if ahead_s < 0 else ""
    await way.provider.be_ahead(ahead_s)
    try:
        ended = await visitor.ours.get(back or await visitor.led_back(await visitor.begin(), "olaf"))
    finally:
        await way.provider.be_ahead(0)
    assert ended.status_code == status, ended.text
    assert ("answer cannot be trusted" in unescape(ended.text)) is (status == 401)


async def test_a_logout_there_ends_the_sessions_here(way: Way, visitor: Visitor, other: Visitor) -> None:
    await way.member("lena")
    assert (await visitor.sign_in("lena")).status_code == 303
    assert (await other.sign_in("lena")).status_code == 303
    await visitor.sign_out_there(way.provider)
    assert not await visitor.is_signed_in()
    # A client that is told the session loses this one only.
    assert await other.is_signed_in() is (way.api.settings.oidc_client_id == "with-sessions")
