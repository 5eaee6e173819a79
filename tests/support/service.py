"""A whole service in this process, as its clients see it: the real application, the engine, an embedded database."""

import asyncio
import base64
import itertools
import json
import re
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import httpx
import pytest
from anyio.from_thread import start_blocking_portal
from argon2 import PasswordHasher
from psycopg.conninfo import conninfo_to_dict

from launchbay.app.build import App, lifespan
from launchbay.auth import passwords
from launchbay.auth.passwords import Passwords
from launchbay.client import Basic, Client
from launchbay.clock import Clock, SystemClock
from launchbay.feature import Features
from launchbay.ids import is_id, new_id
from launchbay.settings import Settings
from launchbay.store import users
from launchbay.store.database import Database
from launchbay.usecases.organizations import create_first_organization
from launchbay.web import app as web_app
from launchbay.web.server import serve
from tests.support.databases import Databases
from tests.support.manifests import WORKFLOWS
from tests.support.served import SERVED

EMAIL = "admin@launchbay.local"
PASSWORD = "correct horse battery staple"
METRICS_TOKEN = "metrics of tests"
JSON = {"Content-Type": "application/json"}
YAML = {"Content-Type": "application/x-yaml"}
UNKNOWN = "00" * 12
BUSY = {"Requested", "Executing", "Destroying"}
LOOK_S = 0.05  # how often a wait for an instance looks at it without being woken
# The least work that Argon2 allows: a real hash costs 20 ms, and tests make hundreds.
QUICK_HASHES = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
# Thousands of refused calls would sleep for minutes.
web_app.REFUSAL_S = 0.0
_numbers = itertools.count(1)
_keys = tempfile.TemporaryDirectory()  # of secret keys: all servers of a database have the same one


_rate = passwords._rated
_ratings: dict[tuple[str, frozenset[str]], tuple[int, str]] = {}


def _rated_before(password: str, words: Sequence[str]) -> tuple[int, str]:
    """Return what a password is rated as; each takes a process of a tenth of a second, and tests use a few only.

    Of the words that guessers of an account try first, those that the password has count.
    """
    key = password, frozenset(word for word in words if word.casefold() in password.casefold())
    if key not in _ratings:
        _ratings[key] = _rate(password, words)
    return _ratings[key]


@contextmanager
def _each_password_rated_once() -> Iterator[None]:
    """Remember ratings while a service runs. Where another one ends meanwhile, each is a process again."""
    passwords._rated = _rated_before
    try:
        yield
    finally:
        passwords._rated = _rate


def basic(email: str, password: str) -> str:
    """Return the value of an Authorization header."""
    return "Basic " + base64.b64encode(f"{email}:{password}".encode()).decode()


def fresh_name(noun: str = "thing") -> str:
    """Return a name that nothing in this session has."""
    return f"{noun} {next(_numbers)}"


def refused(answer: httpx.Response, status: int, code: str | None = None) -> str:
    """Check that an answer is a refusal in the one form that errors have, and return its sentences as one text."""
    assert answer.status_code == status, (answer.status_code, answer.text)
    assert answer.headers["content-type"] == "application/json"
    document = answer.json()
    assert set(document) - {"findings", "docs"} == {"errors", "code", "requestId"}
    assert document["requestId"] == answer.headers["x-request-id"]
    assert document["errors"]
    assert all(isinstance(sentence, str) and sentence.endswith((".", "…")) for sentence in document["errors"])
    if code is not None:
        assert document["code"] == code, document
    return " ".join(document["errors"])


def accepted(answer: httpx.Response) -> Any:
    """Check that an answer is a success with JSON, and return its document."""
    assert answer.status_code == 200, (answer.status_code, answer.text)
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


class Caller:
    """A user of the API. Paths are relative to `/api/1/`; answers are httpx's own."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def get(self, path: str, /, **query: Any) -> httpx.Response:
        return await self.client.get(path, params=query or None)

    async def read(self, path: str, /, **query: Any) -> Any:
        """GET what is there, and return its document."""
        return accepted(await self.get(path, **query))

    async def head(self, path: str) -> httpx.Response:
        return await self.client.head(path)

    async def post(self, path: str, body: Any = None) -> httpx.Response:
        """POST JSON; None sends no body and no content type."""
        return await self.client.post(path, json=body) if body is not None else await self.client.post(path)

    async def put(self, path: str, body: Any) -> httpx.Response:
        return await self.client.put(path, json=body)

    async def put_yaml(self, path: str, text: str) -> httpx.Response:
        return await self.client.put(path, content=text.encode(), headers=YAML)

    async def delete(self, path: str, body: Any = None) -> httpx.Response:
        return await self.client.request("DELETE", path, **({} if body is None else {"json": body}))

    async def send(self, method: str, path: str, content: bytes = b"", **headers: str) -> httpx.Response:
        """Send exactly these bytes; `content_type=` becomes the header Content-Type."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.request(method, path, content=content, headers=sent)


@dataclass
class Api(Caller):
    """The service, called by the administrator of an organization.

    app = await api.application(MANIFEST)
    instance = await api.launch(app, parameters={"input.size": "3"})
    document = await api.settled(instance)
    """

    parts: App
    settings: Settings
    passwords: Passwords
    client: httpx.AsyncClient
    organization: str = ""
    environment: str = ""
    email: str = EMAIL
    clock: Clock = field(default_factory=SystemClock)
    _open: list[httpx.AsyncClient] = field(default_factory=list)

    @property
    def database(self) -> Database:
        """For what the API cannot set up or show yet."""
        return self.parts.database

    def caller(self, authorization: str | None) -> Caller:
        """Return somebody with this Authorization header, or without one."""
        client = _client(self.parts, authorization)
        self._open.append(client)
        return Caller(client)

    async def member(self, *permissions: str, organization: str = "") -> Caller:
        """Return a new member of the organization with a role of these entries: `"Read: [/*]"`."""
        email, password = f"member{next(_numbers)}@example.org", "a password"
        organization = organization or self.organization
        user_id = new_id()
        async with self.database.transaction() as connection:
            hashed = await self.passwords.hash(password)
            await users.insert(connection, id=user_id, email=email, name="Member", password_hash=hashed)
            await users.join_organization(connection, organization_id=organization, user_id=user_id)
            if permissions:
                role_id, text = new_id(), "".join(f"- {entry}\n" for entry in permissions)
                await users.insert_role(
                    connection,
                    id=role_id,
                    organization_id=organization,
                    name=fresh_name("role"),
                    permissions=text,
                    kind="custom",
                )
                await users.assign_role(connection, role_ids=[role_id], user_id=user_id)
        return self.caller(basic(email, password))

    async def outsider(self) -> tuple[Caller, str, str]:
        """Return the administrator of another organization, that organization and its default environment."""
        email, password = f"outsider{next(_numbers)}@example.org", "another password"
        user_id = new_id()
        async with self.database.transaction() as connection:
            hashed = await self.passwords.hash(password)
            await users.insert(connection, id=user_id, email=email, name="Outsider", password_hash=hashed)
            organization = await create_first_organization(connection, fresh_name("organization"), user_id)
            environment = await self._default_environment(connection, organization)
        return self.caller(basic(email, password)), organization, environment

    @asynccontextmanager
    async def in_new_organization(self) -> AsyncIterator["Api"]:
        """Give the same service, called by the administrator of a new organization."""
        email, user_id = f"admin{next(_numbers)}@launchbay.local", new_id()
        async with self.database.transaction() as connection:
            hashed = await self.passwords.hash(PASSWORD)
            await users.insert(connection, id=user_id, email=email, name="Administrator", password_hash=hashed)
            await create_first_organization(connection, fresh_name("organization"), user_id)
        client = _client(self.parts, basic(email, PASSWORD))
        api = replace(self, client=client, email=email, _open=[client])
        await api.set_up(is_first=False)
        try:
            yield api
        finally:
            await api.close()

    async def application(self, manifest: str | None = None, name: str | None = None) -> str:
        """Create an application, with this manifest unless it is None, and return its id."""
        created = await self.post(
            f"organizations/{self.organization}/applications", {"name": name or fresh_name("app")}
        )
        application: str = accepted(created)["id"]
        if manifest is not None:
            accepted(await self.put_yaml(f"applications/{application}/manifest", dedent(manifest)))
        return application

    async def launch(self, application: str, **body: Any) -> str:
        """Launch an application and return the instance's id."""
        launched: str = accepted(await self.post(f"applications/{application}/launch", body))["id"]
        return launched

    async def running(self, manifest: str | None, **body: Any) -> str:
        """Launch a new application with this manifest, wait until it is Running, and return the instance's id."""
        instance = await self.launch(await self.application(manifest), **body)
        document = await self.settled(instance)
        assert document["status"] == "Running", document["errorMessage"]
        return instance

    async def document(self, instance: str) -> Any:
        """Return an instance in detail."""
        return accepted(await self.get(f"instances/{instance}"))

    async def run(self, instance: str, workflow: str, **parameters: Any) -> Any:
        """Run a workflow, wait for its end and return the instance in detail."""
        accepted(await self.post(f"instances/{instance}/{workflow}", parameters))
        return await self.settled(instance)

    async def ran(self, instance: str, workflow: str, **parameters: Any) -> Any:
        """Run a workflow to its end and return its job."""
        started = await self.post(f"instances/{instance}/{workflow}", parameters)
        accepted(started)
        return accepted(await self.get(f"jobs/{started.headers['launchbay-job']}?wait=30"))

    async def round_of(self, task: str) -> object:
        """Run a round of a background task now; return a true value if the next one would start immediately."""
        [found] = [each for each in self.parts.engine.periodic_tasks if each.name == task]
        return await found.run()

    async def settled(self, instance: str, timeout_s: float = 20.0) -> Any:
        """Wait until no job is under way and return the instance in detail."""
        async with asyncio.timeout(timeout_s):
            with self.ends(instance) as look:
                while (document := await self.document(instance))["status"] in BUSY:
                    await look()
        return document

    async def until(self, instance: str, status: str, timeout_s: float = 20.0) -> Any:
        """Wait until the instance has this status and return it in detail."""
        async with asyncio.timeout(timeout_s):
            with self.ends(instance) as look:
                while (document := await self.document(instance))["status"] != status:
                    await look(0.01 if status in BUSY else LOOK_S)
        return document

    async def gone(self, instance: str, timeout_s: float = 20.0) -> None:
        """Wait until the instance is not there any more."""
        async with asyncio.timeout(timeout_s):
            with self.ends(instance) as look:
                while (answer := await self.get(f"instances/{instance}")).status_code == 200:
                    await look()
        refused(answer, 404, "NotFound")

    @contextmanager
    def ends(self, instance: str) -> Iterator[Callable[..., Awaitable[bool]]]:
        """Give what waits for the end of a job of the instance, and no longer than for a time to look again.

        A look is a request, which costs as much as a step of a job. Other processes end jobs too, and nobody hears of
        other changes, so a wait is short.
        """
        with self.parts.engine.dispatcher.watch_ends(instance) as waiter:

            async def look(longest_s: float = LOOK_S) -> bool:
                return await waiter.wait(longest_s)

            yield look

    async def offer(self, markers: list[str] | None = None, properties: list[Mapping[str, Any]] | None = None) -> str:
        """Make an environment that offers these and return its id."""
        environment = new_id()
        statement = (
            "INSERT INTO environments (id, organization_id, name, markers, properties) VALUES (%s, %s, %s, %s, %s)"
        )
        offered = ([{"name": name} for name in markers or []], properties or [])
        async with self.database.transaction() as connection:
            texts = [json.dumps(value) for value in offered]
            await connection.execute(statement, [environment, self.organization, fresh_name("environment"), *texts])
        return environment

    async def set_up(self, *, is_first: bool) -> None:
        """Find the first organization and its environment."""
        if is_first:  # a given password would be rated, which takes a process each time
            async with self.database.connection() as connection:
                statement = "UPDATE users SET password_hash = %s WHERE email = %s"
                await connection.execute(statement, [await self.passwords.hash(PASSWORD), EMAIL])
        [organization] = accepted(await self.get("organizations"))
        self.organization = organization["id"]
        async with self.database.connection() as connection:
            self.environment = await self._default_environment(connection, self.organization)

    async def close(self) -> None:
        for client in self._open:
            await client.aclose()

    @staticmethod
    async def _default_environment(connection: Any, organization: str) -> str:
        statement = "SELECT id FROM environments WHERE organization_id = %s AND is_default"
        [environment] = await (await connection.execute(statement, [organization])).fetchone()
        assert is_id(environment)
        return str(environment)


@asynccontextmanager
async def running_api(
    database_url: str,
    clock: Clock | None = None,
    *,
    engine: bool = True,
    features: Features = SERVED,
    **settings: Any,
) -> AsyncIterator[Api]:
    """Start the service on a database with the schema in it; its engine works until the end, unless told not to."""
    with tempfile.TemporaryDirectory() as directory, _each_password_rated_once():
        chosen = {
            "data_dir": Path(directory),
            "database_url": database_url,
            "secret_key_file": str(Path(_keys.name) / f"{conninfo_to_dict(database_url)['dbname']}.key"),
            "admin_email": EMAIL,
            "stager_interval_ms": 20,
            "step_retry_first_s": 0.05,
            "stop_grace_s": 1.0,
            "port": 0,
            "database_connections": 4,  # each prepares its statements anew, which costs more than a short wait
            "quota_organizations": 0,  # one administrator creates them for all tests
            "metrics_token": METRICS_TOKEN,
            "allowed_hosts": "launchbay",  # which clients on a socket send
            **settings,
        }
        async with lifespan(Settings(**chosen), clock, QUICK_HASHES, features=features) as parts:
            stop = asyncio.Event()
            working = asyncio.create_task(parts.engine.run(stop) if engine else stop.wait())
            hashes = Passwords(QUICK_HASHES)
            client = _client(parts, basic(EMAIL, PASSWORD))
            api = Api(parts, Settings(**chosen), hashes, client)
            api._open.append(client)
            api.clock = clock or api.clock
            try:
                await api.set_up(is_first=parts.first_administrator is not None)
                yield api
            finally:
                await api.close()
                hashes.close()
                stop.set()
                await working


@asynccontextmanager
async def served(api: Api) -> AsyncIterator[int]:
    """Serve the application on a loopback port as `launchbay serve` does, and give the port."""
    stop = asyncio.Event()
    bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        serve(api.parts.app, api.settings, stop, started=lambda _, port: bound.set_result(port))
    )
    yield await bound
    stop.set()
    await serving


def _client(parts: App, authorization: str | None) -> httpx.AsyncClient:
    headers = {} if authorization is None else {"Authorization": authorization}
    transport = httpx.ASGITransport(parts.app)
    return httpx.AsyncClient(transport=transport, base_url="http://launchbay/api/1/", headers=headers, timeout=30)


@pytest.fixture(scope="module")
async def own_service(databases: Databases) -> AsyncIterator[Api]:
    """A running service for one file, called by its first administrator, who administers the server.

    A file that needs this, or counts what is in the whole database, says `api = own_service`.
    """
    url = databases.create()
    async with running_api(url) as running:
        yield running
    databases.drop(url)


@pytest.fixture(scope="package")
async def shared_service(databases: Databases) -> AsyncIterator[Api]:
    """A running service that the files of a folder use one after another (decision 0259)."""
    url = databases.create()
    async with running_api(url) as running:
        yield running
    databases.drop(url)


@pytest.fixture(scope="module")
async def api(shared_service: Api) -> AsyncIterator[Api]:
    """A running service, called by the administrator of an organization that only this file has."""
    async with shared_service.in_new_organization() as api:
        yield api


@asynccontextmanager
async def on_dry_machines(databases: Databases, directory: Path, answers: str) -> AsyncIterator[Api]:
    """Run a service whose machines run nothing, and answer with what this YAML text says."""
    path = directory / "answers.yml"
    path.write_text(answers)
    url = databases.create()
    async with running_api(url, machines="dry-run", dry_run_answers=str(path)) as api:
        yield api
    databases.drop(url)


PERSON_PASSWORD = "a password of one's own"


class Person(Caller):
    """A user with an account of their own."""

    def __init__(self, api: Api, user_id: str, email: str, password: str) -> None:
        super().__init__(api.caller(basic(email, password)).client)
        self.id = user_id
        self.email = email
        self.password = password

    def at(self, api: Api) -> "Person":
        """Return the same person, calling another server of the same database."""
        return Person(api, self.id, self.email, self.password)


def fresh_email() -> str:
    """Return an e-mail address that nobody has."""
    return f"person{next(_numbers)}@example.org"


async def person(api: Api, *roles: str, organization: str = "", by: Caller | None = None) -> Person:
    """Add a user with these roles to an organization, who chooses a password, and return them."""
    email = fresh_email()
    body = {"email": email, "name": "Person", "roles": list(roles)}
    created = accepted(await (by or api).post(f"organizations/{organization or api.organization}/users", body))
    form = {"password": PERSON_PASSWORD, "repeated": PERSON_PASSWORD}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(api.parts.app)) as visitor:
        chosen = await visitor.post(created["invitation"], data=form, headers={"Sec-Fetch-Site": "same-origin"})
    assert chosen.status_code == 200, chosen.text
    return Person(api, created["id"], email, PERSON_PASSWORD)


async def join(inviter: Caller, organization: str, who: Person, *roles: str) -> str:
    """Make somebody with an account a member of another organization; return the invitation link."""
    body = {"email": who.email, "name": "Invited", "roles": list(roles)}
    added = accepted(await inviter.post(f"organizations/{organization}/users", body))
    assert (added["id"], added["pending"]) == (who.id, True)
    accepted(await who.post("users/me/invitations", {"invitation": added["invitation"]}))
    return str(added["invitation"])


async def user_named(api: Api, user_id: str, organization: str = "") -> Any:
    """Return the list item of a user."""
    rows = accepted(await api.get(f"organizations/{organization or api.organization}/users"))
    return next(row for row in rows if row["id"] == user_id)


Ids = dict[str, str]
Ask = Callable[[Api, Ids], Awaitable[httpx.Response]]
NAMED = {"id", "name"}
SUMMARY = {"id", "name", "environment", "application", "revision", "status"}
REFERENCE_INSTANCE = {
    *("id", "name", "version", "parameters", "status", "ownerId", "workflowHistory", "returnValues"),
    *("applicationId", "environmentId", "components"),
}
ADDED_TO_INSTANCE = {
    "parameterOrigins",
    "errorMessage",
    "lastFailure",
    "availableWorkflows",
    "destroyAt",
    "userData",
    "createdAt",
    "labels",
}
# The operation → a request, and the keys of its answer: a set for an object, a list with one for an array of them.
ANSWERS: dict[str, tuple[Ask, set[str] | list[set[str]]]] = {
    "list_organizations": (lambda api, ids: api.get("organizations"), [NAMED]),
    "list_applications": (lambda api, ids: api.get(f"organizations/{ids['organization']}/applications"), [NAMED]),
    "create_application": (
        lambda api, ids: api.post(f"organizations/{ids['organization']}/applications", {"name": fresh_name()}),
        {"id"},
    ),
    "replace_manifest": (
        lambda api, ids: api.put_yaml(f"applications/{ids['application']}/manifest", WORKFLOWS),
        {"version"},
    ),
    "list_revisions": (lambda api, ids: api.get(f"applications/{ids['application']}/revisions"), [NAMED]),
    "launch_application": (lambda api, ids: api.post(f"applications/{ids['other']}/launch", {}), {"id"}),
    "list_environment_instances": (lambda api, ids: api.get(f"environments/{ids['environment']}/instances"), [SUMMARY]),
    "list_application_instances": (lambda api, ids: api.get(f"applications/{ids['application']}/instances"), [SUMMARY]),
    "list_revision_instances": (lambda api, ids: api.get(f"revisions/{ids['revision']}/instances"), [SUMMARY]),
    "read_instance": (lambda api, ids: api.get(f"instances/{ids['instance']}"), REFERENCE_INSTANCE | ADDED_TO_INSTANCE),
    "put_user_data": (lambda api, ids: api.put(f"instances/{ids['instance']}/userData", {"a": "b"}), set()),
    "run_workflow": (lambda api, ids: api.post(f"instances/{ids['instance']}/echo", {}), {"id"}),
    "schedule_workflow": (
        lambda api, ids: api.post(f"instances/{ids['instance']}/echo/schedule", {"interval": "3600000"}),
        {"id"},
    ),
    "list_schedules": (lambda api, ids: api.get(f"instances/{ids['instance']}/schedules"), {"schedules"}),
    "reschedule_workflow": (
        lambda api, ids: api.post(f"instances/{ids['instance']}/echo/reschedule", {"interval": "7200000"}),
        {"id"},
    ),
    "delete_instance": (lambda api, ids: api.delete(f"instances/{ids['instance']}?force=1"), set()),
}

GREETER = """
application:
  configuration:
    input.who: world
  interfaces:
    input:  { who: bind(greeter#input.who) }
    result: { greeting: bind(greeter#result.greeting) }
  components:
    greeter:
      type: workflow.Instance
      interfaces:
        input:  { who: configuration(string) }
        result: { greeting: publish-signal(string) }
      configuration:
        configuration.workflows:
          launch:
            steps:
              - breathe: { action: wait, parameters: { delay: 0 } }
            return:
              greeting: { value: "Hello, {$.who}!" }
"""
SLOW = """
launch:
  steps:
    - think: { action: wait, parameters: { delay: 1 } }
"""
FAILING = """
launch:
  steps:
    - call: { action: restcall, parameters: { command: "http://127.0.0.1:1/nothing" } }
"""


@dataclass(frozen=True)
class Server:
    """A running service: where it is, and its administrator's client."""

    url: str
    client: Client
    organization: str
    environment: str

    def application(self, name: str, manifest: str) -> str:
        """Make an application and return its id."""
        created = self.client.create_application(self.organization, name=name)
        self.client.replace_manifest(created.id, dedent(manifest))
        return created.id

    def refresh_token(self) -> str:
        """Generate a refresh token of the administrator."""
        page = self.client.generate_token(email=EMAIL, password=PASSWORD, label="tests")
        found = re.search(r"lbr_[\w-]+", page)
        assert found is not None, page
        return found[0]


@contextmanager
def serving(databases: Databases, **settings: Any) -> Iterator[Server]:
    """Start a service with settings and stop it after use."""
    url = databases.create()
    with (
        start_blocking_portal("asyncio") as portal,
        portal.wrap_async_context_manager(_running(url, **settings)) as (api, port),
        Client(f"http://127.0.0.1:{port}", Basic(EMAIL, PASSWORD)) as client,
    ):
        yield Server(f"http://127.0.0.1:{port}", client, api.organization, api.environment)
    databases.drop(url)


@asynccontextmanager
async def _running(url: str, **settings: Any) -> AsyncIterator[tuple[Api, int]]:
    async with running_api(url, **settings) as api, served(api) as port:
        yield api, port
