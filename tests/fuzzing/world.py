"""Objects of every kind for generated requests to meet: made-up ids alone would hardly get beyond 404."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.api.changes import Stage
from tests.api.manifests import TYPED, WORKFLOWS
from tests.api.pages import browser, send
from tests.api.people import person
from tests.api.running import EMAIL, PASSWORD, Api, accepted, fresh_name, running_api, served
from tests.databases import Databases
from tests.outgoing.loopback import answer, loopback_server

Words = dict[str, list[str]]


@dataclass(frozen=True)
class Target:
    """A service on a port, a session token of its administrator, and the words that its paths are made of."""

    port: int
    token: str
    words: Words


@asynccontextmanager
async def target(databases: Databases, *, copies: int) -> AsyncIterator[Target]:
    """Serve the product on a loopback port, filled with `copies` objects of every kind; requests will delete some."""
    url = databases.create()
    async with loopback_server() as source:
        source.routes["/m.yaml"] = answer(body=WORKFLOWS.encode())
        # The requests come as fast as they can, from one address and one user.
        unlimited: dict[str, Any] = dict.fromkeys(("rate_limit_address_per_s", "rate_limit_user_per_s"), 100_000)
        async with running_api(url, outgoing_allow="127.0.0.1", **unlimited) as api, served(api) as port:
            words = await _words(Stage(api, source), copies)
            words["url"] = [source.url("/m.yaml")]
            yield Target(port, await _session(api), words)
    databases.drop(url)


async def _words(stage: Stage, copies: int) -> Words:
    api = stage.api
    words: Words = {
        "organizations": [api.organization],
        "workflow": ["echo", "pause", "greet", "launch", "destroy", "configuration.default"],
        "commandname": ["list", "acquire", "release", "put", "get"],
    }
    for _ in range(copies):
        application = await api.application(WORKFLOWS)
        instance = await api.launch(application, parameters={"label": "x"})
        typed = await api.application(TYPED)
        made = {
            "users": (await person(api, "Guest")).id,
            "roles": await stage.role(),
            "applications": application,
            "revisions": await stage.made(f"applications/{typed}/revisions", {"name": fresh_name(), "version": 2}),
            "environments": await stage.environment(),
            "services": await stage.service(),
            "instances": instance,
            "jobs": await stage.job(instance),
            "paths": f"/applications/{application}",
        }
        for noun, value in made.items():
            words.setdefault(noun, []).append(value)
    return words


async def _session(api: Api) -> str:
    async with browser(api) as visitor:
        token = (await send(visitor, "/refreshToken", email=EMAIL, password=PASSWORD)).token
        exchanged = accepted(await visitor.post("/refreshToken/jwtBearer", json={"refreshToken": token}))
        return str(exchanged["jwtBearer"])
