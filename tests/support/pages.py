"""The pages as a browser without scripts uses them."""

import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser

import httpx
import pytest

from tests.support.databases import Databases
from tests.support.service import PASSWORD, Api, running_api

ORIGIN = "http://launchbay"


class Page(HTMLParser):
    """What a page shows: its fields, its links, its text."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__()
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        self.answer = answer
        self.status = answer.status_code
        self.fields: dict[str, str] = {}
        self.links: dict[str, str] = {}
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(answer.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self.attributes |= set(given)
        if tag == "input" and "name" in given:
            self.fields[given["name"] or ""] = given.get("value") or ""
        if tag == "a":
            self.links[given["href"] or ""] = ""

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def token(self) -> str:
        """The refresh token that is shown."""
        [found] = re.findall(r"lbr_[\w-]+", self.answer.text)
        return str(found)


def words_of(markup: str) -> str:
    """Return the words of a part of a page, with one space between them."""
    return " ".join(re.sub(r"<[^>]+>", " ", markup).split())


def browser(api: Api) -> httpx.AsyncClient:
    """Return somebody without credentials, at the root of the server."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(api.parts.app), base_url=ORIGIN, timeout=30)


@pytest.fixture(scope="package")
async def idle_service(databases: Databases) -> AsyncIterator[Api]:
    """A service without an engine, shared by the files."""
    url = databases.create()
    async with running_api(url, engine=False) as running:
        yield running
    databases.drop(url)


@pytest.fixture(scope="package")
async def working_service(databases: Databases) -> AsyncIterator[Api]:
    """A service whose engine works, shared by the files that run jobs."""
    url = databases.create()
    async with running_api(url) as running:
        yield running
    databases.drop(url)


@pytest.fixture
async def visitor(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    """The administrator, signed in to the console."""
    async with browser(api) as client:
        answer = await client.post("/console/signIn", data={"email": api.email, "password": PASSWORD})
        assert answer.status_code == 303, answer.text
        yield client


async def get(client: httpx.AsyncClient, path: str) -> Page:
    return Page(await client.get(path))


async def send(client: httpx.AsyncClient, path: str, headers: dict[str, str] | None = None, **fields: str) -> Page:
    """Send the form of a page, as a browser does on a secure connection."""
    given = {"Sec-Fetch-Site": "same-origin", "Origin": ORIGIN} if headers is None else headers
    return Page(await client.post(path, data=fields, headers=given))
