"""Two organizations in one service, and callers of every kind, for the authorization matrix.

Everything is told from the organization `home`, where the members with one permission each are. `away` is the other
one; its administrator is the caller who holds everything, in the wrong place.
"""

import asyncio
import hmac
import itertools
import json
import warnings
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc import jwt
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, OKPKey, RSAKey
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from launchbay.auth.gate import ADMINISTRATOR_TEXT
from launchbay.auth.permissions import Actor as PermissionsActor
from launchbay.auth.permissions import Method, Permission
from launchbay.auth.tokens import RingKey
from launchbay.clock import SystemClock
from launchbay.ids import new_id
from launchbay.store import users
from launchbay.store.database import Connection, Database
from launchbay.web.responses import EVENTS
from tests.support.changes import MANIFEST, Stage
from tests.support.databases import Databases
from tests.support.manifests import TYPED, WORKFLOWS
from tests.support.network import answer, loopback_server
from tests.support.pages import browser, send
from tests.support.service import EMAIL, PASSWORD, Api, accepted, basic, fresh_name, join, person, running_api, served


def part(value: Any) -> str:
    """Return one part of a token: the bytes, or the JSON of any other value, in unpadded base64."""
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlsafe_b64encode(text).rstrip(b"=").decode()


def opened(token: str, index: int) -> dict[str, Any]:
    """Return the JSON in a part of a token."""
    text = token.split(".")[index]
    read: dict[str, Any] = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return read


class Forger:
    """Knows a good token and, worse than any attacker, the key that signed it."""

    def __init__(self, good: str, key: RingKey) -> None:
        assert isinstance(key, OKPKey)
        self.good = good
        self.key = key
        self.header = opened(good, 0)
        self.claims = opened(good, 1)
        self.parts = good.split(".")

    def signed(self, header: dict[str, Any], claims: dict[str, Any] | None = None, key: Any = None) -> str:
        """Return a token with a signature that fits its header, by our key or another one."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)  # of the name EdDSA
            return jwt.encode(
                header, claims or self.claims, key or self.key, algorithms=[header["alg"]], default_type=None
            )

    def signed_bytes(self, payload: bytes) -> str:
        """Return a token with our good signature over any payload at all."""
        data = f"{self.parts[0]}.{part(payload)}"
        private = self.key.private_key
        assert isinstance(private, Ed25519PrivateKey)
        return f"{data}.{part(private.sign(data.encode()))}"

    def with_header(self, header: Any) -> str:
        """Return the good token under another header, which its signature does not fit."""
        return f"{part(header)}.{self.parts[1]}.{self.parts[2]}"

    def with_claims(self, **changed: Any) -> str:
        """Return a token with our good signature over changed claims; None takes a claim away."""
        claims = {name: value for name, value in (self.claims | changed).items() if value is not None}
        return self.signed(self.header, claims)

    def headers(self) -> dict[str, str]:
        """Headers that ask for another algorithm, key or meaning."""
        known, (_, claims, _) = self.header, self.parts
        return {
            "alg none": f"{part(known | {'alg': 'none'})}.{claims}.",
            "alg None": f"{part(known | {'alg': 'None'})}.{claims}.",
            "alg none with the signature": self.with_header(known | {"alg": "none"}),
            "alg of another kind": self.with_header(known | {"alg": ["EdDSA"]}),
            "no alg": self.with_header({"typ": "JWT", "kid": known["kid"]}),
            "unknown kid": self.signed(known | {"kid": new_id()}),
            "kid of another kind": self.with_header(known | {"kid": ["x"]}),
            "kid with a path": self.signed(known | {"kid": "../../etc/passwd"}),
            "no kid": self.signed({"alg": "EdDSA", "typ": "JWT"}),
            "key address": self.with_header(known | {"jku": "https://evil.example"}),
            "critical extension": self.with_header(known | {"crit": ["exp"]}),
            "unencoded payload": self.with_header(known | {"b64": False, "crit": ["b64"]}),
            "another typ": self.signed(known | {"typ": "at+jwt"}),
            "no typ": self.signed({"alg": "EdDSA", "kid": known["kid"]}),
            "oversize header": self.with_header(known | {"x": "y" * 3000}),
            "header that is a list": self.with_header([]),
            "header that is null": self.with_header(None),
            "header that nests": self.with_header(b"[" * 300),
            "header with a name twice": self.with_header(b'{"alg":"none","alg":"EdDSA","typ":"JWT","kid":"x"}'),
            "header that is no base64": f"!!!.{claims}.{self.parts[2]}",
        }

    def keys(self) -> dict[str, str]:
        """Signatures by keys that are not ours, or by ours taken for something else."""
        public, stranger = self.key.as_pem(private=False), OKPKey.generate_key("Ed25519")
        return {
            "the public key as HMAC secret": self._hmac_signed(public),
            "the public key as HMAC secret, without its last line end": self._hmac_signed(public.strip()),
            "the raw public key as HMAC secret": self._hmac_signed(self.key.public_key.public_bytes_raw()),
            "another EdDSA key under our kid": self.signed(self.header, key=stranger),
            "an EC key under our kid": self.signed(self.header | {"alg": "ES256"}, key=ECKey.generate_key("P-256")),
            "an RSA key under our kid": self.signed(self.header | {"alg": "RS256"}, key=RSAKey.generate_key(2048)),
            "own key in the header": self.signed(self.header | {"jwk": stranger.as_dict(private=False)}, key=stranger),
        }

    def claim_sets(self) -> dict[str, str]:
        """Claims that we do not issue, under our own good signature."""
        end = str(self.claims["exp"])
        text = json.dumps(self.claims)
        return {
            "expired": self.with_claims(exp=self.claims["iat"]),
            "wrong issuer": self.with_claims(iss="https://other.example.org"),
            "wrong audience": self.with_claims(aud="another"),
            "many audiences": self.with_claims(aud=["launchbay", "another"]),
            "no issuer": self.with_claims(iss=None),
            "no audience": self.with_claims(aud=None),
            "no end": self.with_claims(exp=None),
            "an end that is text": self.with_claims(exp=end),
            "an end that is true": self.with_claims(exp=True),
            "an end that is a fraction": self.with_claims(exp=self.claims["exp"] + 0.5),
            "an end beyond numbers": self.signed_bytes(text.replace(end, "1e999").encode()),
            "an end that is no number": self.signed_bytes(text.replace(end, "NaN").encode()),
            "an end of too many digits": self.signed_bytes(text.replace(end, "9" * 400).encode()),
            "no subject": self.with_claims(sub=None),
            "a subject that is a number": self.with_claims(sub=7),
            "a subject that is no id": self.with_claims(sub="admin"),
            "no labels": self.with_claims(email=None, name=None),
            "claims that are a list": self.signed_bytes(b"[]"),
            "claims that are text": self.signed_bytes(b'"x"'),
            "claims that nest": self.signed_bytes(b"[" * 1000),
            "claims that are no JSON": self.signed_bytes(b"{"),
            "claims in Latin-1": self.signed_bytes(b'{"sub": "\xe9"}'),
        }

    def shapes(self) -> dict[str, str]:
        """Texts of another shape."""
        header, claims, signature = self.parts
        return {
            "no signature": f"{header}.{claims}.",
            "two parts": f"{header}.{claims}",
            "four parts": f"{self.good}.{signature}",
            "five parts": f"{header}.{claims}.{signature}.{signature}.{signature}",
            "changed claims": f"{header}.{part(self.claims | {'sub': new_id()})}.{signature}",
            "a longer signature": f"{self.good}AAAA",
            "padding": f"{self.good}==",
            "a refresh token": "lbr_" + "x" * 43,
            "oversize": self.good + "A" * 5000,
            "empty": "",
            "dots": "..",
            "not ASCII": self.good[:-1] + "é",
            "NUL": self.good + "\0",
            "a JSON object": json.dumps({"payload": claims, "signature": signature, "protected": header}),
        }

    def _hmac_signed(self, secret: bytes) -> str:
        data = f"{part(self.header | {'alg': 'HS256'})}.{self.parts[1]}"
        return f"{data}.{part(hmac.digest(secret, data.encode(), 'sha256'))}"


ADMINISTRATOR = "administrator"
FOREIGN_ADMINISTRATOR = "administrator of another organization"
INVITED = "invited as administrator"  # to `home`, from `away`, where the role is Guest
OF_BOTH = "guest and foreign administrator"
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
        had_the_body = False

        async def receive_or_leave() -> Message:
            nonlocal had_the_body
            if not had_the_body:  # it is there already: nobody has to wait for it
                message = await receive()
                had_the_body = not message.get("more_body")
                return message
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
        unknown, members = await _unknown_callers(api, clock), await _members(api)
        yield World(home, away, (*unknown, *members, foreign, *await _from_elsewhere(home, away)))


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
    return [*members, *await _programs(api)]


async def _programs(api: Api) -> list[Actor]:
    """Return access tokens of an administrator who calls for nothing else, and of a service account."""
    within = f"organizations/{api.organization}"
    owner = await person(api, "Administrator")
    robot = accepted(await api.post(f"{within}/serviceAccounts", {"name": "Robot", "roles": ["Guest"]}))["id"]
    made = {
        "access token of an administrator": (owner, {}),
        "access token for Read": (owner, {"scope": ["Read: [/*]"]}),
        "service account for Read": (api, {"owner": robot}),
    }
    return [
        Actor(name, f"Bearer {accepted(await caller.post(f'{within}/accessTokens', body))['token']}", owner.password)
        for name, (caller, body) in made.items()
    ]


async def _from_elsewhere(home: Stage, away: Stage) -> list[Actor]:
    """Return people of `away`: one who has not accepted an invitation to `home`, and one who has."""
    there: dict[str, Any] = {"organization": away.api.organization, "by": away.api}
    invited = await person(home.api, "Guest", **there)
    body = {"email": invited.email, "name": "Ann", "roles": ["Administrator"]}
    accepted(await home.api.post(f"{home.organization}/users", body))
    of_both = await person(home.api, "Administrator", **there)
    await join(home.api, home.api.organization, of_both, "Guest")
    people = {INVITED: invited, OF_BOTH: of_both}
    return [Actor(name, basic(who.email, who.password), who.password) for name, who in people.items()]


async def _session(api: Api) -> str:
    async with browser(api) as visitor:
        token = (await send(visitor, "/refreshToken", email=EMAIL, password=PASSWORD)).token
        exchanged = accepted(await visitor.post("/refreshToken/jwtBearer", json={"refreshToken": token}))
        return str(exchanged["jwtBearer"])


@dataclass(frozen=True)
class Organization:
    """An organization with one object of every kind."""

    id: str
    administrator_role: str
    application: str
    revision: str
    environment: str
    service: str
    instance: str


async def make_organization(connection: Connection, name: str = "Acme") -> Organization:
    made = Organization(*(new_id() for _ in range(7)))
    values = made.__dict__ | {"name": name}
    statements = """
        INSERT INTO organizations (id, name) VALUES (%(id)s, %(name)s);
        INSERT INTO applications (id, organization_id, name, latest_version)
            VALUES (%(application)s, %(id)s, 'shop', 1);
        INSERT INTO manifests (application_id, version, content, author_id) VALUES (%(application)s, 1, 'x', 'nobody');
        INSERT INTO revisions (id, application_id, name, version) VALUES (%(revision)s, %(application)s, 'stable', 1);
        INSERT INTO environments (id, organization_id, name) VALUES (%(environment)s, %(id)s, 'dev');
        INSERT INTO services (id, organization_id, zone_id, name, type_id)
            VALUES (%(service)s, %(id)s, 'zone', 'vault', 'vault');
        INSERT INTO instances (id, organization_id, application_id, environment_id, version, name, owner_id, status)
            VALUES (%(instance)s, %(id)s, %(application)s, %(environment)s, 1, 'shop 1', 'nobody', 'Running')
    """
    for statement in statements.split(";"):
        await connection.execute(statement.encode(), values)
    await users.insert_role(
        connection,
        id=made.administrator_role,
        organization_id=made.id,
        name="Administrator",
        permissions=ADMINISTRATOR_TEXT,
        kind="administrator",
    )
    return made


async def make_user(
    connection: Connection, email: str = "ann@example.org", password_hash: str | None = None, organization: str = ""
) -> str:
    user_id = new_id()
    await users.insert(connection, id=user_id, email=email, name=email.partition("@")[0], password_hash=password_hash)
    if organization:
        await users.join_organization(connection, organization_id=organization, user_id=user_id)
    return user_id


async def give_role(connection: Connection, organization_id: str, user_id: str, text: str, name: str = "role") -> str:
    role_id = new_id()
    await users.insert_role(
        connection, id=role_id, organization_id=organization_id, name=name, permissions=text, kind="custom"
    )
    await users.assign_role(connection, role_ids=[role_id], user_id=user_id)
    return role_id


def actor_for(user_id: str, stamp: int | None = None) -> PermissionsActor:
    method = Method.BEARER if stamp is None else Method.BASIC
    return PermissionsActor(user_id, "ann@example.org", "ann", "198.51.100.7", method, stamp)


class _Counting:
    """A connection that counts the statements sent through it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.counts: Counter[str] = Counter()
        self.decoder = connection.decoder
        self.known = connection.known

    async def run(self, *arguments: Any, **options: Any) -> Any:
        self.counts["statements"] += 1
        return await self._connection.run(*arguments, **options)


@asynccontextmanager
async def counting(database: Database) -> AsyncIterator[Any]:
    """Lend a connection that counts: `connection.counts["statements"]`."""
    async with database.connection() as connection:
        yield _Counting(connection)


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
