"""Two organizations in one service, and callers of every kind, for the authorization matrix.

Everything is told from the organization `home`, where the members with one permission each are. `away` is the other
one; its administrator is the caller who holds everything, in the wrong place.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import httpx
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from launchbay.auth.permissions import Permission
from launchbay.clock import SystemClock
from launchbay.web.responses import EVENTS
from tests.api.changes import MANIFEST, Stage
from tests.api.pages import browser, send
from tests.api.people import person
from tests.api.running import EMAIL, PASSWORD, Api, accepted, basic, fresh_name, running_api
from tests.databases import Databases
from tests.outgoing.loopback import answer, loopback_server

ADMINISTRATOR = "administrator"
FOREIGN_ADMINISTRATOR = "administrator of another organization"
# Whose credentials are not good, in whatever way: each of their calls must end with 401.
UNKNOWN_CALLERS = ("anonymous", "wrong password", "expired token", "disabled account")
# Each of their calls costs the verification of a password.
SLOW_CALLERS = ("wrong password", "disabled account")
# What takes two permissions is allowed to nobody who has one.
TOGETHER = (
    (Permission.CREATE_ENVIRONMENT, Permission.READ),
    (Permission.EDIT_APPLICATION, Permission.READ),
    (Permission.EDIT_ENVIRONMENT, Permission.EDIT_INSTANCE),
)
_addresses = itertools.count(1)


class MovableClock(SystemClock):
    """The time of day can be moved on; what only measures durations goes on as it does."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


@dataclass(frozen=True)
class Actor:
    """A kind of caller: what it sends as Authorization, and the password that goes with it."""

    name: str
    authorization: str | None
    password: str = PASSWORD


@dataclass(frozen=True)
class World:
    """The service, a stage in each of its organizations, and the callers."""

    home: Stage
    away: Stage
    actors: tuple[Actor, ...]

    @property
    def api(self) -> Api:
        return self.home.api

    def client(self, actor: Actor) -> httpx.AsyncClient:
        """Return a client of the caller, at the root of the server.

        Each has an address of its own: after many wrong passwords the service lets an address wait.
        """
        number = next(_addresses)
        address = f"10.{number // 62500}.{number // 250 % 250}.{number % 250}"
        transport = httpx.ASGITransport(cutting_streams(self.api.parts.app), client=(address, 1))
        headers = {} if actor.authorization is None else {"Authorization": actor.authorization}
        return httpx.AsyncClient(transport=transport, base_url="http://launchbay", headers=headers, timeout=30)


def cutting_streams(app: ASGIApp) -> ASGIApp:
    """Return the application for callers who leave a stream of events as soon as it begins; it would never end."""

    async def cutting(scope: Scope, receive: Receive, send: Send) -> None:
        begun = asyncio.Event()

        async def receive_or_leave() -> Message:
            asked, leaving = asyncio.ensure_future(receive()), asyncio.ensure_future(begun.wait())
            await asyncio.wait({asked, leaving}, return_when=asyncio.FIRST_COMPLETED)
            leaving.cancel()
            if asked.done():
                return asked.result()
            asked.cancel()
            return {"type": "http.disconnect"}

        async def send_the_begin(message: Message) -> None:
            if begun.is_set():
                return
            await send(message)
            if (b"content-type", EVENTS.encode()) in message.get("headers", []):
                begun.set()
                await send({"type": "http.response.body", "body": b""})

        await app(scope, receive_or_leave, send_the_begin)

    return cutting


@asynccontextmanager
async def running_world(databases: Databases) -> AsyncIterator[World]:
    """Start a service whose engine stands still, and fill it."""
    clock = MovableClock()
    async with AsyncExitStack() as stack:
        url = databases.create()
        stack.callback(databases.drop, url)
        source = await stack.enter_async_context(loopback_server())
        source.routes["/m.yaml"] = answer(body=MANIFEST.encode())
        api = await stack.enter_async_context(running_api(url, clock, engine=False, outgoing_allow="127.0.0.1"))
        outsider, organization, environment = await api.outsider()
        other = replace(api, client=outsider.client, organization=organization, environment=environment)
        home, away = Stage(api, source), Stage(other, source)
        foreign = Actor(FOREIGN_ADMINISTRATOR, outsider.client.headers["Authorization"], "another password")
        yield World(home, away, (*await _unknown_callers(api, clock), *await _members(api), foreign))


async def _unknown_callers(api: Api, clock: MovableClock) -> list[Actor]:
    expired = await _session(api)
    clock.ahead += timedelta(seconds=api.settings.session_lifetime_s + 60)
    disabled = await person(api)
    accepted(await api.put(f"organizations/{api.organization}/users/{disabled.id}", {"enabled": False}))
    return [
        Actor("anonymous", None),
        Actor("wrong password", basic(EMAIL, "not the password")),
        Actor("expired token", f"Bearer {expired}"),
        Actor("disabled account", basic(disabled.email, disabled.password), disabled.password),
    ]


async def _members(api: Api) -> list[Actor]:
    nobody = await person(api)
    members = [
        Actor(ADMINISTRATOR, basic(EMAIL, PASSWORD)),
        Actor("administrator by token", f"Bearer {await _session(api)}"),
        Actor("no role", basic(nobody.email, nobody.password), nobody.password),
    ]
    for permissions in (*((permission,) for permission in Permission), *TOGETHER):
        name = " with ".join(permissions)
        role = {"name": fresh_name(name), "permissions": "".join(f"- {each}: [/*]\n" for each in permissions)}
        accepted(await api.post(f"organizations/{api.organization}/roles", role))
        who = await person(api, role["name"])
        members.append(Actor(name, basic(who.email, who.password), who.password))
    return members


async def _session(api: Api) -> str:
    async with browser(api) as visitor:
        token = (await send(visitor, "/refreshToken", email=EMAIL, password=PASSWORD)).token
        exchanged = accepted(await visitor.post("/refreshToken/jwtBearer", json={"refreshToken": token}))
        return str(exchanged["jwtBearer"])
