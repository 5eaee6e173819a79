"""From a row of the endpoint table to requests that succeed for who may make them, in either organization.

Rows that change something take theirs from the scenarios of `tests/api/changes.py`; reads follow from the path. A new
row needs something here only when it is neither.
"""

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from urllib.parse import urlencode

import httpx

from launchbay.web.routing import Endpoint, is_id_parameter
from tests.access.matrix_world import Actor
from tests.api.changes import SCENARIOS, Stage
from tests.api.pages import ORIGIN, browser, send
from tests.api.people import PASSWORD, fresh_email, person
from tests.api.running import JSON, YAML, Caller, accepted

PREFIX = "/api/1/"
FORM = {"Content-Type": "application/x-www-form-urlencoded", "Origin": ORIGIN}


@dataclass(frozen=True)
class Sent:
    """A request without credentials; `owner` may make it even where no permission helps.

    One that `is_personal` holds something of its caller, and is made anew for the next one.
    """

    method: str
    path: str  # from the root of the server, with the query
    content: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    owner: Caller | None = None
    is_personal: bool = False

    async def by(self, client: httpx.AsyncClient) -> httpx.Response:
        return await client.request(self.method, self.path, content=self.content, headers=self.headers)

    async def by_owner(self) -> httpx.Response:
        assert self.owner is not None
        url = httpx.URL(ORIGIN).join(self.path)  # the clients of callers start below the prefix of the API
        return await self.owner.client.request(self.method, url, content=self.content, headers=self.headers)


Build = Callable[[Stage, Actor], Awaitable[Sent]]


async def request_of(row: Endpoint, stage: Stage, actor: Actor) -> Sent:
    """Prepare what a row's request needs, and return the request."""
    if row.operation_id in OWN_WAY:
        return await OWN_WAY[row.operation_id](stage, actor)
    if row.operation_id in SCENARIOS:
        return await _as_in_scenario(row, stage)
    path = re.sub(r"\{(\w+)\}", "{}", row.path).format(*[await _made(stage, row, name) for name in row.parameters()])
    if row.body is None:
        return Sent(row.method, path)
    example = row.body.example
    if row.body.media_type == YAML["Content-Type"]:
        return Sent(row.method, path, (example or "{}").encode(), YAML)
    return Sent(row.method, path, json.dumps(example or {}).encode(), JSON)


def ids_in(row: Endpoint, path: str) -> list[int]:
    """Return the positions of the segments of a path that hold ids."""
    template = row.path.split("/")
    assert len(template) == len(path.partition("?")[0].split("/")), f"{path} is no path of {row.path}"
    return [at for at, segment in enumerate(template) if segment[:1] == "{" and is_id_parameter(segment[1:-1])]


def with_segments(path: str, segments: dict[int, str]) -> str:
    """Return the path with other segments at some positions."""
    parts, question, query = path.partition("?")
    replaced = [segments.get(at, segment) for at, segment in enumerate(parts.split("/"))]
    return "/".join(replaced) + question + query


async def _as_in_scenario(row: Endpoint, stage: Stage) -> Sent:
    call = await SCENARIOS[row.operation_id](stage)
    assert isinstance(call, partial), f"{row.operation_id}: its scenario is no partial; give it a way of its own here"
    owner: Caller = getattr(call.func, "__self__")  # noqa: B009 - a partial hides that it holds a method
    recorded: list[httpx.Request] = []

    def record(request: httpx.Request) -> httpx.Response:
        recorded.append(request)
        return httpx.Response(200)

    async with httpx.AsyncClient(transport=httpx.MockTransport(record), base_url=f"http://launchbay{PREFIX}") as client:
        await getattr(Caller(client), call.func.__name__)(*call.args, **call.keywords)
    [request] = recorded
    headers = {"Content-Type": request.headers["content-type"]} if "content-type" in request.headers else {}
    return Sent(request.method, request.url.raw_path.decode(), request.content, headers, owner)


async def _made(stage: Stage, row: Endpoint, parameter: str) -> str:
    """Return the value of a path parameter: something of the stage's organization."""
    noun = row.path.split("{" + parameter + "}")[0].rstrip("/").rpartition("/")[2]
    assert noun in OBJECTS, f"{row.path}: tell in OBJECTS how to make one of {noun}"
    return await OBJECTS[noun](stage)


async def _organization(stage: Stage) -> str:
    return stage.api.organization


async def _user(stage: Stage) -> str:
    return (await person(stage.api)).id


@dataclass(frozen=True)
class Standing:
    """Objects of one organization that no test changes, each below the one before, so that no list is empty."""

    application: str
    revision: str
    instance: str


_standing: dict[str, Standing] = {}


async def standing(stage: Stage) -> Standing:
    """Return the standing objects of the stage's organization; they are made when first asked for."""
    if stage.api.organization not in _standing:
        instance = await stage.settled()
        application = accepted(await stage.api.get(f"instances/{instance}"))["applicationId"]
        revision = await stage.made(f"applications/{application}/revisions", {"name": "stable", "version": 1})
        await stage.api.launch(application, revisionId=revision)
        _standing[stage.api.organization] = Standing(application, revision, instance)
    return _standing[stage.api.organization]


async def _application(stage: Stage) -> str:
    return (await standing(stage)).application


async def _revision(stage: Stage) -> str:
    return (await standing(stage)).revision


async def _instance(stage: Stage) -> str:
    return (await standing(stage)).instance


async def _environment(stage: Stage) -> str:
    """Return the environment of the standing instances."""
    return str(accepted(await stage.api.get(f"instances/{await _instance(stage)}"))["environmentId"])


async def _job(stage: Stage) -> str:
    return await stage.job(await _instance(stage))


async def _invitation(stage: Stage) -> str:
    body = {"email": fresh_email(), "name": "Ann"}
    link = accepted(await stage.api.post(f"{stage.organization}/users", body))["invitation"]
    return str(link).rpartition("/")[2]


OBJECTS: dict[str, Callable[[Stage], Awaitable[str]]] = {
    "organizations": _organization,
    "users": _user,
    "roles": Stage.role,
    "applications": _application,
    "revisions": _revision,
    "environments": _environment,
    "services": Stage.service,
    "instances": _instance,
    "jobs": _job,
    "invitation": _invitation,
    "webhooks": Stage.webhook,
    "approvals": Stage.approval,
    "hostKeys": Stage.host_key,
}


async def _explain(stage: Stage, _: Actor) -> Sent:
    path = f"/applications/{await stage.api.application()}"
    return Sent("GET", f"{PREFIX}permissions/explain?{urlencode({'permission': 'Read', 'path': path})}")


async def _change_password(_: Stage, actor: Actor) -> Sent:
    body = {"currentPassword": actor.password, "newPassword": actor.password}
    return Sent("PUT", f"{PREFIX}users/me/password", json.dumps(body).encode(), JSON, is_personal=True)


async def _exchange(stage: Stage, _: Actor) -> Sent:
    who = await person(stage.api)
    async with browser(stage.api) as visitor:
        token = (await send(visitor, "/refreshToken", email=who.email, password=PASSWORD)).token
    return Sent("POST", "/refreshToken/jwtBearer", json.dumps({"refreshToken": token}).encode(), JSON)


async def _generate(stage: Stage, _: Actor) -> Sent:
    who = await person(stage.api)
    return Sent("POST", "/refreshToken", urlencode({"email": who.email, "password": PASSWORD}).encode(), FORM)


async def _accept_invitation(stage: Stage, _: Actor) -> Sent:
    form = urlencode({"password": PASSWORD, "repeated": PASSWORD}).encode()
    return Sent("POST", f"/invitation/{await _invitation(stage)}", form, FORM)


async def _import(stage: Stage, _: Actor) -> Sent:
    """Plan an import: a real one would make its caller a member of one more organization."""
    archive = accepted(await stage.api.get(f"{stage.organization}/archive"))
    return Sent("POST", f"{PREFIX}archives", json.dumps({"archive": archive, "plan": True}).encode(), JSON)


# What neither a scenario nor the path alone can tell, such as what depends on the caller.
OWN_WAY: dict[str, Build] = {
    "explain_permission": _explain,
    "import_organization": _import,
    "change_password": _change_password,
    "exchange_token": _exchange,
    "generate_token": _generate,
    "accept_invitation": _accept_invitation,
}


def moved(sent: Sent, segments: dict[int, str]) -> Sent:
    """Return the request addressed to something else."""
    return replace(sent, path=with_segments(sent.path, segments))
