"""The authorization matrix: every endpoint × every kind of caller × own, foreign and missing objects.

Made from the endpoint table, and compared with `matrix.golden`. Before the callers try, somebody who may shows that the
request succeeds; after each refusal the whole database is looked at, and must be as it was.
"""

import difflib
import json
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest

from launchbay import limits
from launchbay.web.routing import Endpoint, is_id_parameter
from tests.support.changes import SCENARIOS, Stage
from tests.support.databases import Watch
from tests.support.pages import ORIGIN, browser, send
from tests.support.second_factors import protect
from tests.support.served import ENDPOINTS
from tests.support.service import (
    EMAIL,
    JSON,
    PERSON_PASSWORD,
    UNKNOWN,
    YAML,
    Caller,
    accepted,
    fresh_email,
    fresh_name,
    person,
)
from tests.support.services import made_vault, told
from tests.support.worlds import (
    ADMINISTRATOR,
    FOREIGN_ADMINISTRATOR,
    INVITED,
    OF_BOTH,
    SLOW_CALLERS,
    UNKNOWN_CALLERS,
    Actor,
    World,
)

# The authorization matrix as text that people read and review.
#
# A section is a row of the endpoint table, a line an object. `200 a, b · 403 everybody else` says who got what. Callers
# without good credentials get 401 and are not named then.

FILE = Path(__file__).parents[1] / "matrix" / "matrix.golden"
# LAUNCHBAY_GOLDEN=write .venv/bin/pytest tests/matrix/test_matrix.py
WRITES = os.environ.get("LAUNCHBAY_GOLDEN") == "write"
HEAD = """\
Who may do what: every endpoint, every kind of caller, every kind of object. Written by tests/matrix/test_matrix.py;
after a change that is meant: LAUNCHBAY_GOLDEN=write .venv/bin/pytest tests/matrix/test_matrix.py, and read the diff.

Callers: anonymous, with an expired token, and for the first line also with a wrong password, and of a disabled account:
401 unless a line says more.
The administrator of the organization `home`, by password and by token; members of it without a role, and with a role
of one permission for everything (`- Read: [/*]` and so on), or of two; access tokens of an administrator of `home`,
without a scope and with the scope `Read: [/*]`, and of a service account with the role Guest, which is for reading; the
administrator of the organization `away`; a guest of `away` whom `home` has invited as an administrator, and who has not
accepted; somebody who is a guest of `home` and an administrator of `away`.
Objects: of `home`, of `away`, and `missing`; `home/away` is one of away addressed below one of home.
Lists: all, some or none of what the administrator sees.
"""
Outcomes = Mapping[str, str]  # caller → "403", or "200 all"


def line(outcomes: Outcomes) -> str:
    """Return one line: who got what."""
    groups: dict[str, list[str]] = {}
    for actor, outcome in outcomes.items():
        groups.setdefault(outcome, []).append(actor)
    unknown = [actor for actor in outcomes if actor in UNKNOWN_CALLERS]
    if groups.get("401") == unknown:
        del groups["401"]
    rest = max(groups, key=lambda outcome: len(groups[outcome]))
    everybody = "anybody, with credentials or without" if "anonymous" in groups[rest] else "everybody"
    shown = [f"{outcome} {', '.join(actors)}" for outcome, actors in sorted(groups.items()) if outcome != rest]
    return " · ".join([*shown, f"{rest} {everybody}{' else' if shown else ''}"])


def section(title: str, lines: Mapping[str, Outcomes]) -> str:
    """Return the text of one row of the table."""
    width = max(len(name) for name in lines)
    return "\n".join([title, *(f"  {name:{width}}  {line(outcomes)}" for name, outcomes in lines.items())])


def stored() -> dict[str, str]:
    """Return the sections of the file by their title."""
    parts = FILE.read_text("utf-8").split("\n\n")[2:] if FILE.exists() else []
    return {part.partition("\n")[0]: part.rstrip("\n") for part in parts}


def write(sections: Mapping[str, str], titles: Sequence[str]) -> None:
    """Write the file in the order of the titles: sections that were not computed this time stay as they are."""
    known = stored() | dict(sections)
    texts = [HEAD.rstrip("\n"), *(known[title] for title in titles if title in known)]
    FILE.write_text("\n\n".join(texts) + "\n", "utf-8")


# From a row of the endpoint table to requests that succeed for who may make them, in either organization.
#
# Rows that change something take theirs from the scenarios of `tests/support/changes.py`; reads follow from the path. A
# new row needs something here only when it is neither.

PREFIX = "/api/1/"
FORM = {"Content-Type": "application/x-www-form-urlencoded", "Origin": ORIGIN}


@dataclass(frozen=True)
class Sent:
    """A request without credentials; `owner` may make it even where no permission helps.

    One that `is_personal` holds something of its caller, and is made anew for the next one. One that `ends_sessions` is
    undone, since an administrator calls by password and by token.
    """

    method: str
    path: str  # from the root of the server, with the query
    content: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    owner: Caller | None = None
    is_personal: bool = False
    ends_sessions: bool = False

    async def by(self, client: httpx.AsyncClient) -> httpx.Response:
        return await client.request(self.method, self.path, content=self.content, headers=self.headers)

    async def by_owner(self) -> httpx.Response:
        assert self.owner is not None
        url = httpx.URL(ORIGIN).join(self.path)  # the clients of callers start below the prefix of the API
        return await self.owner.client.request(self.method, url, content=self.content, headers=self.headers)


BuildRequest = Callable[[Stage, Actor], Awaitable[Sent]]


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


async def _generation(stage: Stage) -> str:
    await standing(stage)
    return "1"


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
    "compare": _job,
    "generations": _generation,
    "invitation": _invitation,
    "webhooks": Stage.webhook,
    "bulk": Stage.bulk,
    "recurring-schedules": Stage.recurring_schedule,
    "git-sources": Stage.git_source,
    "change-sets": Stage.change_set,
    "plans": Stage.plan,
    "rollouts": Stage.rollout,
    "approvals": Stage.approval,
    "hostKeys": Stage.host_key,
    "serviceAccounts": Stage.service_account,
    "accessTokens": Stage.access_token,
}


async def _explain(stage: Stage, _: Actor) -> Sent:
    path = f"/applications/{await stage.api.application()}"
    return Sent("GET", f"{PREFIX}permissions/explain?{urlencode({'permission': 'Read', 'path': path})}")


async def _failures(stage: Stage, _: Actor) -> Sent:
    """Ask for the failure of an instance: those of other rows come and go."""
    instance = await stage.failed("It failed.")
    return Sent("GET", f"{PREFIX}{stage.organization}/failures?instance={instance}")


async def _read_delivery(stage: Stage, _: Actor) -> Sent:
    body = {"url": "http://127.0.0.1:9/", "events": ["job"]}
    webhook = await stage.made(f"{stage.organization}/webhooks", body)
    sent = accepted(await stage.api.post(f"webhooks/{webhook}/test"))["delivery"]
    return Sent("GET", f"{PREFIX}webhooks/{webhook}/deliveries/{sent}")


async def _change_password(_: Stage, actor: Actor) -> Sent:
    body = {"currentPassword": actor.password, "newPassword": actor.password}
    return Sent(
        "PUT", f"{PREFIX}users/me/password", json.dumps(body).encode(), JSON, is_personal=True, ends_sessions=True
    )


async def _sign_out_everywhere(_: Stage, __: Actor) -> Sent:
    return Sent("DELETE", f"{PREFIX}users/me/sessions", is_personal=True, ends_sessions=True)


async def _exchange(stage: Stage, _: Actor) -> Sent:
    who = await person(stage.api)
    async with browser(stage.api) as visitor:
        token = (await send(visitor, "/refreshToken", email=who.email, password=PERSON_PASSWORD)).token
    return Sent("POST", "/refreshToken/jwtBearer", json.dumps({"refreshToken": token}).encode(), JSON)


async def _generate(stage: Stage, _: Actor) -> Sent:
    who = await person(stage.api)
    return Sent("POST", "/refreshToken", urlencode({"email": who.email, "password": PERSON_PASSWORD}).encode(), FORM)


async def _sign_in(stage: Stage, _: Actor) -> Sent:
    who = await person(stage.api)
    return Sent("POST", "/signIn", urlencode({"email": who.email, "password": PERSON_PASSWORD}).encode(), FORM)


async def _generate_with_second_factor(stage: Stage, _: Actor) -> Sent:
    who = await person(stage.api)
    codes = await protect(stage.api, who)
    async with browser(stage.api) as visitor:
        page = await send(visitor, "/refreshToken", email=who.email, password=PERSON_PASSWORD)
    form = urlencode({"token": page.fields["token"], "code": codes.recovery[0], "label": ""}).encode()
    return Sent("POST", "/refreshToken/secondFactor", form, FORM)


async def _accept_invitation(stage: Stage, _: Actor) -> Sent:
    form = urlencode({"password": PERSON_PASSWORD, "repeated": PERSON_PASSWORD}).encode()
    return Sent("POST", f"/invitation/{await _invitation(stage)}", form, FORM)


async def _leave(stage: Stage, _: Actor) -> Sent:
    """Leave an organization that no caller belongs to: they are needed where they are."""
    outsider, organization, _environment = await stage.api.outsider()
    who = await person(stage.api, organization=organization, by=outsider)
    return Sent("DELETE", f"{PREFIX}users/me/organizations/{organization}", owner=who)


async def _import(stage: Stage, _: Actor) -> Sent:
    """Plan an import: a real one would make its caller a member of one more organization."""
    archive = accepted(await stage.api.get(f"{stage.organization}/archive"))
    return Sent("POST", f"{PREFIX}archives", json.dumps({"archive": archive, "plan": True}).encode(), JSON)


async def _import_lines(stage: Stage, _: Actor) -> Sent:
    lines = (await stage.api.get(f"{stage.organization}/archive/lines")).content
    return Sent("POST", f"{PREFIX}archives/lines?plan=1", lines, {"Content-Type": "application/x-ndjson"})


async def _git_event(stage: Stage, _: Actor) -> Sent:
    """Sign an event as GitLab does, for a source whose account may use the vault."""
    vault, robot = await made_vault(stage.api), {"name": fresh_name("robot"), "roles": ["Administrator"]}
    await told(stage.api, vault, "set-secret", name="events", value="a secret for events")
    account = await stage.made(f"{stage.organization}/serviceAccounts", robot)
    more = {"accountId": account, "vault": vault, "forge": "gitlab", "webhookSecret": "events"}
    source = await stage.made(f"{stage.organization}/git-sources", {**await stage.git_source_body(), **more})
    headers = {**JSON, "X-Gitlab-Event": "Push Hook", "X-Gitlab-Token": "a secret for events"}
    body = json.dumps({"ref": "refs/heads/main", "after": "5f" * 20}).encode()
    return Sent("POST", f"{PREFIX}git-sources/{source}/events", body, headers)


# What neither a scenario nor the path alone can tell, such as what depends on the caller.
OWN_WAY: dict[str, BuildRequest] = {
    "explain_permission": _explain,
    "list_failures": _failures,
    "read_delivery": _read_delivery,
    "import_organization": _import,
    "import_organization_lines": _import_lines,
    "change_password": _change_password,
    "sign_out_everywhere": _sign_out_everywhere,
    "receive_git_event": _git_event,
    "exchange_token": _exchange,
    "generate_token": _generate,
    "sign_in_with_form": _sign_in,
    "generate_token_with_second_factor": _generate_with_second_factor,
    "accept_invitation": _accept_invitation,
    "leave_organization": _leave,
}


def moved(sent: Sent, segments: dict[int, str]) -> Sent:
    """Return the request addressed to something else."""
    return replace(sent, path=with_segments(sent.path, segments))


async def _launch_environment(stage: Stage, other: Stage) -> Sent:
    path = f"applications/{await stage.api.application()}/launch"
    return _json("POST", path, {"environmentId": other.api.environment})


async def _launch_revision(stage: Stage, other: Stage) -> Sent:
    application = await stage.api.application()
    revision = await _revision_of(stage, other, application)
    return _json("POST", f"applications/{application}/launch", {"revisionId": revision})


async def _revision_environment(stage: Stage, other: Stage) -> Sent:
    path = f"applications/{await stage.api.application()}/revisions"
    return _json("POST", path, {"name": "r", "version": 1, "environmentId": other.api.environment})


async def _revision_instance(stage: Stage, other: Stage) -> Sent:
    application = await stage.api.application()
    instance = await stage.api.launch(application) if stage is other else (await standing(other)).instance
    return _json("POST", f"applications/{application}/revisions", {"name": "r", "instanceId": instance})


async def _default_environment(stage: Stage, other: Stage) -> Sent:
    return _json("PUT", f"{stage.organization}/defaultEnvironment", {"environmentId": await other.environment()})


async def _offered_service(stage: Stage, other: Stage) -> Sent:
    return _json("PUT", f"environments/{await stage.environment()}/services", {"services": [await other.service()]})


async def _explained_user(stage: Stage, other: Stage) -> Sent:
    who = await person(other.api)
    asked = {"permission": "Read", "path": f"/environments/{stage.api.environment}", "user": who.id}
    return Sent("GET", f"{PREFIX}permissions/explain?{urlencode(asked)}")


async def _checked_role(stage: Stage, other: Stage) -> Sent:
    return _json("POST", f"{stage.organization}/roles/check", {"permissions": "", "roleId": await other.role()})


async def _zone(stage: Stage, other: Stage) -> Sent:
    [zone] = accepted(await other.api.get(f"{other.organization}/zones"))
    body = {"name": fresh_name("vault"), "typeId": "builtin:cobalt_secure_store", "zoneId": zone["id"]}
    return _json("POST", f"{stage.organization}/services", body)


async def _configured_revision(stage: Stage, other: Stage) -> Sent:
    instance = await stage.settled()
    application = accepted(await stage.api.get(f"instances/{instance}"))["applicationId"]
    revision = await _revision_of(stage, other, application)
    return _json("PUT", f"instances/{instance}/configuration", {"revisionId": revision})


async def _offering_environment(stage: Stage, other: Stage) -> Sent:
    body = {"environments": [await other.environment()]}
    return _json("PUT", f"instances/{await stage.settled()}/environments", body)


async def _revision_of(stage: Stage, other: Stage, application: str) -> str:
    if stage is other:
        return await stage.made(f"applications/{application}/revisions", {"name": "r", "version": 1})
    return (await standing(other)).revision


# Objects that a request names elsewhere than in its path: the first stage is that of the path, the second theirs.
NAMED_IN_REQUESTS: dict[str, tuple[str, Callable[[Stage, Stage], Awaitable[Sent]]]] = {
    "environment of a launch": ("launch_application", _launch_environment),
    "revision of a launch": ("launch_application", _launch_revision),
    "instance of a revision": ("create_revision", _revision_instance),
    "environment of a revision": ("create_revision", _revision_environment),
    "default environment": ("set_default_environment", _default_environment),
    "service of an environment": ("replace_environment_services", _offered_service),
    "user of an explanation": ("explain_permission", _explained_user),
    "role of a check": ("check_role", _checked_role),
    "zone of a service": ("create_service", _zone),
    "revision of a configuration": ("reconfigure_instance", _configured_revision),
    "environment that offers an instance": ("replace_instance_environments", _offering_environment),
}


async def _destroy(stage: Stage) -> Sent:
    return _json("POST", f"instances/{await stage.settled()}/destroy", {})


async def _schedule_destroy(stage: Stage) -> Sent:
    return _json("POST", f"instances/{await stage.settled()}/destroy/schedule", {"interval": "60000"})


async def _reschedule_destroy(by: str, stage: Stage) -> Sent:
    instance = await stage.settled()
    made = await stage.api.post(f"instances/{instance}/destroy/schedule", {"interval": "60000"})
    named = accepted(made)["id"] if by == "id" else "destroy"
    return _json("POST", f"instances/{instance}/{named}/reschedule", {"interval": "0"})


async def _cancel_destroy(stage: Stage) -> Sent:
    instance = await stage.settled()
    accepted(await stage.api.post(f"instances/{instance}/destroy"))
    job = accepted(await stage.api.get(f"instances/{instance}/jobs"))[0]["id"]
    return Sent("DELETE", f"{PREFIX}instances/{instance}/jobs/{job}")


async def _forced_deletion(stage: Stage) -> Sent:
    return Sent("DELETE", f"{PREFIX}instances/{await stage.settled()}?force=1")


# The same endpoint with something in its request that asks for another permission, or for more.
SPECIAL: dict[str, tuple[str, Callable[[Stage], Awaitable[Sent]]]] = {
    "destroy": ("run_workflow", _destroy),
    "destroy, later": ("schedule_workflow", _schedule_destroy),
    "a scheduled destroy by its name": ("reschedule_workflow", partial(_reschedule_destroy, "name")),
    "a scheduled destroy by its id": ("reschedule_workflow", partial(_reschedule_destroy, "id")),
    "the job of destroy": ("cancel_job", _cancel_destroy),
    "an active instance by force": ("delete_instance", _forced_deletion),
}


def _json(method: str, path: str, body: object) -> Sent:
    return Sent(method, PREFIX + path, json.dumps(body).encode(), JSON)


# Who makes an organization belongs to one more from then on, so this comes after everything else.
LAST = "create_organization"
ROWS = {row.operation_id: row for row in sorted(ENDPOINTS, key=lambda row: row.operation_id == LAST)}
# The files that share the table, each with the tags of its rows; test_matrix.py has the rest.
PARTS = {
    "accounts": {"Organizations", "Users", "Roles", "Account", "Pages"},
    "applications": {"Applications", "Manifests", "Revisions", "Webhooks", "Approvals"},
    "instances": {"Instances", "Jobs", "Workflows"},
}
REST = "rest"
# Nobody can reach these without an OpenID Connect provider; tests/api/test_openid.py has one.
NEED_A_PROVIDER = {"begin_sign_in", "finish_sign_in", "end_provider_sessions"}
NEED_A_TOKEN_OF_THEIR_OWN = frozenset({"read_metrics"})  # no account lets anybody in
NEED_AN_ADDRESS = frozenset({"read_issuer"})  # of the server, which has none here


def title(row: Endpoint) -> str:
    """Return the headline of a row's section."""
    return f"{row.operation_id}: {row.method} {row.path}"


def case_title(operation: str, name: str) -> str:
    """Return the headline of the section of a request that is special."""
    return f"{operation}, {name}"


TITLES = [
    *(title(row) for row in ENDPOINTS),
    *(case_title(operation, f"naming the {name}") for name, (operation, _) in NAMED_IN_REQUESTS.items()),
    *(case_title(operation, name) for name, (operation, _) in SPECIAL.items()),
]


def rows_of(part: str) -> list[str]:
    """Return the operations whose callers a file tries; when the golden file is written test_matrix.py has them all."""
    if WRITES:
        return list(ROWS) if part == REST else []
    parts = {tag: name for name, tags in PARTS.items() for tag in tags}
    return [operation for operation, row in ROWS.items() if parts.get(row.tags[0], REST) == part]


Build = Callable[[Actor], Awaitable[Sent]]
_ID = re.compile(r"\b[0-9a-f]{24}\b")


@dataclass(frozen=True)
class Column:
    """A kind of object: `probe` is who may reach it, if anybody may, `of` the organization that the path leads to."""

    build: Build
    probe: str | None = None
    of: str = "home"

    def is_foreign_to(self, actor: Actor) -> bool:
        """Tell whether the caller does not belong to the organization."""
        if self.of == "home":
            return actor.name in (FOREIGN_ADMINISTRATOR, INVITED)
        return actor.name not in (FOREIGN_ADMINISTRATOR, INVITED, OF_BOTH)


def columns_of(row: Endpoint, world: World) -> dict[str, Column]:
    """Return the kinds of objects that a row can be called for."""

    async def home(actor: Actor) -> Sent:
        return await request_of(row, world.home, actor)

    async def away(actor: Actor) -> Sent:
        return await request_of(row, world.away, actor)

    async def missing(actor: Actor) -> Sent:
        sent = await home(actor)
        return moved(sent, dict.fromkeys(ids_in(row, sent.path), UNKNOWN))

    async def home_missing(actor: Actor) -> Sent:
        sent = await home(actor)
        return moved(sent, {ids_in(row, sent.path)[-1]: UNKNOWN})

    async def home_away(actor: Actor) -> Sent:
        sent, other = await home(actor), await away(actor)
        last = ids_in(row, sent.path)[-1]
        return moved(sent, {last: other.path.partition("?")[0].split("/")[last]})

    count = row.path.count("Id}") + row.path.count("{id}")
    if count == 0 and row.operation_id != "explain_permission":
        return {
            "-": Column(
                home,
                None
                if row.operation_id in NEED_A_PROVIDER | NEED_A_TOKEN_OF_THEIR_OWN | NEED_AN_ADDRESS
                else ADMINISTRATOR,
            )
        }
    columns = {"home": Column(home, ADMINISTRATOR), "away": Column(away, FOREIGN_ADMINISTRATOR, "away")}
    if count:
        columns["missing"] = Column(missing)
    if count > 1:
        columns |= {"home/missing": Column(home_missing), "home/away": Column(home_away)}
    return columns


async def outcomes(world: World, watch: Watch, column: Column, problems: list[str], *, changes: bool) -> dict[str, str]:
    """Let every caller try, and return who got what; what must not be goes into `problems`."""
    found: dict[str, str] = {}
    reference = await _probed(world, column, found)
    sent: Sent | None = None
    for actor in world.actors:
        if actor.name in SLOW_CALLERS and column.probe != ADMINISTRATOR:
            continue  # one column is enough: credentials are looked at before the object, as the other callers show
        if sent is None:
            sent = await column.build(actor)
            watch.begin()
        async with world.client(actor) as client:
            answer = await _answer(world, sent, client)
        found[actor.name] = f"{answer.status_code}{_coverage(answer, reference)}"
        if answer.status_code == 200 and changes:
            sent = None
            continue
        where = f"{sent.method} {sent.path} by {actor.name}"
        if changed := watch.changed():
            problems.append(f"{where}: {answer.status_code}, but these tables changed: {', '.join(changed)}")
        if answer.status_code != 200 and column.is_foreign_to(actor):
            problems.extend(f"{where} tells the id {told}" for told in _told(answer, sent))
        if sent.is_personal:
            sent = None
    return found


async def _answer(world: World, sent: Sent, client: httpx.AsyncClient) -> httpx.Response:
    if not sent.ends_sessions:
        return await sent.by(client)
    async with world.api.database.connection() as connection:
        cursor = await connection.execute("SELECT access_stamp FROM users WHERE email = %s", [EMAIL])
        [stamp] = (await cursor.fetchall())[0]
        answer = await sent.by(client)
        await connection.execute("UPDATE users SET access_stamp = %s WHERE email = %s", [stamp, EMAIL])
        await connection.execute("UPDATE refresh_tokens SET revoked_at = NULL")
        return answer


async def _probed(world: World, column: Column, found: dict[str, str]) -> list[str] | None:
    """Show that the request succeeds for who may make it, and return what a list then shows."""
    if column.probe is None:
        return None
    actor = next(actor for actor in world.actors if actor.name == column.probe)
    sent = await column.build(actor)
    if sent.owner is not None and sent.owner is not world.home.api and sent.owner is not world.away.api:
        probe = await sent.by_owner()
        found["its owner"] = str(probe.status_code)
    else:
        async with world.client(actor) as client:
            probe = await _answer(world, sent, client)
    assert probe.status_code == 200, f"the probe {sent.method} {sent.path} failed: {probe.text}"
    return _shown(probe)


def _shown(answer: httpx.Response) -> list[str] | None:
    """Return what identifies the items of a list; None for an answer that is no list of objects with ids."""
    if answer.headers.get("content-type") != "application/json":
        return None
    document = answer.json()
    if not isinstance(document, list) or not all(isinstance(item, dict) and "id" in item for item in document):
        return None
    return [str(item["id"]) for item in document]


def _coverage(answer: httpx.Response, reference: list[str] | None) -> str:
    if answer.status_code != 200 or reference is None:
        return ""
    shown = _shown(answer) or []
    if not shown:
        return " none"
    return " all" if shown == reference else " some"


def _told(answer: httpx.Response, sent: Sent) -> set[str]:
    """Return the ids in a refusal that its request did not hold; the request's own id is no object's."""
    known = sent.path.encode() + sent.content + answer.headers["x-request-id"].encode()
    return {told for told in _ID.findall(answer.text) if told.encode() not in known}


def compare(name: str, text: str, sections: dict[str, str]) -> None:
    """Compare a section with the golden file, or keep it to be written."""
    sections[name] = text
    if WRITES:
        return
    expected = stored().get(name, "")
    difference = "\n".join(difflib.unified_diff(expected.split("\n"), text.split("\n"), "golden", "now", lineterm=""))
    assert text == expected, f"who may do what has changed; see the head of {FILE.name}:\n{difference}"


async def check_row(world: World, watch: Watch, sections: dict[str, str], operation: str) -> None:
    """Let every caller try a row of the table."""
    row = ROWS[operation]
    with pytest.MonkeyPatch.context() as patch:
        # So many callers begin bulk runs and ask for plans, and none ends while the engine stands still.
        patch.setattr(limits, "BULKS_OPEN", 1_000)
        patch.setattr(limits, "PLANS_WAITING", 1_000)
        await check(world, watch, sections, title(row), columns_of(row, world), changes=row.method != "GET")


async def check(
    world: World, watch: Watch, sections: dict[str, str], headline: str, columns: dict[str, Column], *, changes: bool
) -> None:
    """Let every caller try the columns of a section, and compare who got what with the golden file."""
    problems: list[str] = []
    lines = {key: await outcomes(world, watch, column, problems, changes=changes) for key, column in columns.items()}
    assert problems == []
    compare(headline, section(headline, lines), sections)
