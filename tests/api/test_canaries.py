"""No secret comes out again: not in logs, errors, lists, the audit log, pages, or what others are shown (promise 10).

Canaries are put everywhere where the API takes a secret (`canaries.py`), and then everything that can be read is read.
The server is a process of its own, so that its whole output is looked at, at the level debug.
"""

import asyncio
import json
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psycopg
import pytest

from launchbay.web.responses import EVENTS
from tests.support.canaries import Canaries, Planted, Planter
from tests.support.fuzzing import noun_of
from tests.support.network import LoopbackServer, Received, answer, loopback_server
from tests.support.served import ENDPOINTS, PAGES
from tests.support.servers import PASSWORD, Process
from tests.support.service import EMAIL, METRICS_TOKEN, basic

pytestmark = pytest.mark.slow  # two servers, each full of secrets, one process each
AT_LEAST = 64
# What these answers are for is to show what was given; who may read the object may see it (reference §2).
SHOWN_ON_PURPOSE = {"read_instance", "read_revision", "read_properties"}
# Kept in the database as they are, since instances work with them and their readers see them; all else is sealed.
KEPT_IN_CLEAR = re.compile(
    r"of a (launch|run|preview|configuration|revision|schedule|moved schedule|resumed run)$|obsolete launch"
    r"|in user data|property of|revision$|in an address of a run|that a receiver repeats"
)


@dataclass(frozen=True)
class World:
    """A server after planting: its port, its output, the canaries and what is there."""

    port: int
    log: Path
    canaries: Canaries
    planted: Planted
    source: LoopbackServer


async def echo(received: Received, writer: asyncio.StreamWriter) -> None:
    """Answer with all that was sent."""
    body = json.dumps(dict(received.headers)).encode()
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


async def tell(received: Received, writer: asyncio.StreamWriter) -> None:
    """Refuse with a sentence that repeats the password, so that nothing but its value gives it away."""
    body = f"No, {received.headers['x-password']} will not do".encode()
    writer.write(b"HTTP/1.1 403 No\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


@pytest.fixture(scope="module", params=["json", "console"])
async def world(anyio_backend: object, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    # Outside of pytest's own directory: every pytest that starts closes that to PostgreSQL's account.
    directory = Path(tempfile.mkdtemp(prefix="launchbay-canaries-"))
    directory.chmod(0o711)
    settings = {
        "LAUNCHBAY_LOG_LEVEL": "debug",
        "LAUNCHBAY_METRICS_TOKEN": METRICS_TOKEN,
        "LAUNCHBAY_LOG_FORMAT": request.param,
        "LAUNCHBAY_OUTGOING_ALLOW": "127.0.0.1",
    }
    server = Process(["serve", "--port", "0", "--data-dir", str(directory / "data")], directory, settings=settings)
    canaries = Canaries()
    canaries.by_place["the administrator's password"] = PASSWORD
    async with loopback_server() as source:
        source.routes["/m.yaml"] = answer(body=b"launch: {steps: []}")
        source.routes["/echo"] = echo
        source.routes["/tell"] = tell
        try:
            await asyncio.to_thread(server.start)
            assert server.port is not None
            async with client(server.port, basic(EMAIL, PASSWORD)) as admin:
                planted = await Planter(server.port, admin, canaries, source).plant()
            yield World(server.port, directory / "serve-1.log", canaries, planted, source)
        finally:
            await asyncio.to_thread(server.end)
            shutil.rmtree(directory, ignore_errors=True)


@asynccontextmanager
async def client(port: int, authorization: str | None) -> AsyncIterator[httpx.AsyncClient]:
    headers = {} if authorization is None else {"Authorization": authorization}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/api/1/", headers=headers, timeout=30) as opened:
        yield opened


def leaks(canaries: Canaries, texts: Iterator[tuple[str, str]]) -> list[str]:
    return [f"{where}: {place}" for where, text in texts for place in canaries.found_in(text)]


async def reads(world: World, asking: httpx.AsyncClient) -> AsyncIterator[tuple[str, httpx.Response]]:
    """Ask for everything that can be read, of what was planted."""
    for row in ENDPOINTS:
        if row.method != "GET" or row.returns.media_type == EVENTS:
            continue
        nouns = {name: noun_of(row.path, name) or "" for name in row.parameters()}
        if not set(nouns.values()) <= set(world.planted.objects):
            continue
        path = row.path.format(**{name: world.planted.objects[noun] for name, noun in nouns.items()})
        yield row.operation_id, await asking.get(httpx.URL(asking.base_url).join(path))


def test_there_are_canaries_everywhere(world: World) -> None:
    assert len(set(world.canaries.by_place.values())) >= AT_LEAST
    assert world.planted.refusals
    assert len(world.source.received) >= 3, "the workflow and the webhooks have called"


def test_none_is_in_the_log(world: World) -> None:
    text = world.log.read_text("utf-8", "replace")
    assert text.count("run_workflow") >= 2
    assert leaks(world.canaries, iter([("log", text)])) == []


def test_none_is_in_an_error(world: World) -> None:
    answers = (
        (f"{answer.request.method} {answer.request.url.path}", f"{answer.headers} {answer.text}")
        for answer in world.planted.refusals
    )
    assert leaks(world.canaries, answers) == []


def test_none_is_in_what_covers_it(world: World) -> None:
    assert [answer.status_code for answer in world.planted.shown] == [200] * len(world.planted.shown)
    shown = ((f"{answer.request.method} {answer.request.url.path}", answer.text) for answer in world.planted.shown)
    assert leaks(world.canaries, shown) == []


async def test_none_is_in_what_can_be_read_but_where_it_belongs(world: World) -> None:
    async with client(world.port, basic(EMAIL, PASSWORD)) as admin:
        answers = [(operation, answer) async for operation, answer in reads(world, admin)]
    assert {operation for operation, answer in answers if answer.status_code == 200} >= {
        *("list_users", "list_services", "read_service", "list_webhooks", "list_deliveries", "list_audit_entries"),
        *("read_bulk", "list_bulk_instances", "read_change_set", "read_rollout", "list_rollout_instances"),
        *("read_recurring_schedule", "read_git_source", "list_git_sources"),
        *("list_jobs", "read_job", "read_log", "list_tokens", "read_instance", "list_application_instances"),
    }
    texts = ((operation, answer.text) for operation, answer in answers if operation not in SHOWN_ON_PURPOSE)
    assert leaks(world.canaries, texts) == []


async def test_messages_of_errors_are_covered_where_parameters_are_shown(world: World) -> None:
    async with client(world.port, basic(EMAIL, PASSWORD)) as admin:
        document = (await admin.get(f"instances/{world.planted.objects['instances']}")).json()
    for name in ("parameters", "userData", "returnValues"):
        del document[name]
    assert leaks(world.canaries, iter([("read_instance", json.dumps(document))])) == []


@pytest.mark.parametrize("who", ["a stranger", "a guest"])
async def test_none_is_in_what_others_are_shown(world: World, who: str) -> None:
    passwords = world.canaries.by_place
    known = {
        "a stranger": basic("ann@example.org", passwords["changed password"]),
        "a guest": basic("user2@example.org", passwords["password of another user 2"]),
    }
    async with client(world.port, known[who]) as other:
        answers = [(operation, answer) async for operation, answer in reads(world, other)]
    hidden = SHOWN_ON_PURPOSE if who == "a guest" else set()
    texts = ((operation, answer.text) for operation, answer in answers if operation not in hidden)
    assert leaks(world.canaries, texts) == []


async def test_none_is_on_a_public_page_or_in_the_metrics(world: World) -> None:
    async with client(world.port, None) as anybody:
        answers = {path: await anybody.get(httpx.URL(anybody.base_url).join(path), headers=METRICS) for path in PUBLIC}
    assert "launchbay_http_request_seconds" in answers["/metrics"].text
    texts = [(path, answer.text) for path, answer in answers.items()]
    assert leaks(world.canaries, iter(texts)) == []


NOUNS = {
    "job": "jobs",
    "user": "users",
    "webhook": "webhooks",
    "bulk": "bulk",
    "change": "change-sets",
    "rollout": "rollouts",
    "recurring": "recurring-schedules",
    "source": "git-sources",
}
STREAMS = {page.path for page in PAGES if page.path.endswith("/events")}
SURELY_VISITED = {"/console/instances/{id}", "/console/instances/{id}/jobs/{job}", "/console/applications/{id}"}
SURELY_VISITED |= {
    f"/console/instances/{{id}}/{tab}" for tab in ("configuration", "activity", "settings", "components")
}
SURELY_VISITED |= {
    f"/console/organizations/{{id}}/{page}"
    for page in ("bulk/{bulk}", "changes/{change}", "recurring/{recurring}", "git-sources/{source}")
} | {"/console/applications/{id}/rollouts/{rollout}"}
PUBLIC = ["/", "/refreshToken", "/health/live", "/health/ready", "/metrics", "/docs", "/api/1/openapi.json"]
METRICS = {"Authorization": f"Bearer {METRICS_TOKEN}"}


async def test_none_is_on_a_page_of_the_console(world: World) -> None:
    origin = f"http://127.0.0.1:{world.port}"
    async with httpx.AsyncClient(base_url=origin, headers={"Origin": origin}, timeout=30) as browser:
        signed_in = await browser.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
        assert signed_in.status_code == 303, signed_in.text
        async with client(world.port, basic(EMAIL, PASSWORD)) as admin:
            entries = (await admin.get(f"organizations/{world.planted.objects['organizations']}/audit")).json()
        known = {"version": "1", "number": "1", "entry": entries[0]["id"]}
        found = {}
        for page in PAGES:
            if page.path.startswith("/docs"):
                continue  # the same for everybody
            words = {name: NOUNS.get(name) or page.path.split("/")[2] for name in re.findall(r"{(\w+)}", page.path)}
            if re.search("{(account|other)}", page.path):
                continue  # no page of a service account, and there is no second run to compare with
            if page.method == "GET" and set(words.values()) <= set(world.planted.objects) and page.path not in STREAMS:
                objects = {name: world.planted.objects[noun] for name, noun in words.items()}
                found[page.path] = await browser.get(page.path.format(**objects | known))
    # Pages that lead on, such as the first one and the next failure of a log, answer 303.
    refused = {path: answer.status_code for path, answer in found.items() if answer.status_code not in {200, 303}}
    assert refused == {}
    assert found.keys() >= SURELY_VISITED
    assert leaks(world.canaries, ((path, answer.text) for path, answer in found.items())) == []


def test_none_is_in_a_delivery_of_a_webhook(world: World) -> None:
    sent = (("delivery", f"{r.headers} {r.body!r}") for r in world.source.received if "launchbay-delivery" in r.headers)
    assert leaks(world.canaries, sent) == []


async def test_only_what_instances_work_with_is_kept_in_clear(world: World) -> None:
    url = (world.log.parent / "data").resolve()
    found = set()
    async with await psycopg.AsyncConnection.connect(
        f"host={url}/postgres user=launchbay dbname=launchbay"
    ) as database:
        names = await database.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        for (name,) in await names.fetchall():
            rows = await database.execute(f"SELECT t::text FROM {name} t".encode())
            for (text,) in await rows.fetchall():
                found |= {(name, place) for place in world.canaries.found_in(text)}
    unsealed = {each for each in found if not KEPT_IN_CLEAR.search(each[1])}
    assert unsealed == {("jobs", "password of a bulk run")}, "a job keeps its parameters, and nothing else does"
