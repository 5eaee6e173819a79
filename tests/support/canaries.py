"""Secrets that can be recognized wherever they come out again, put everywhere where the API takes one.

`plant` sends them, and what came back meanwhile is kept. Each says in its text where it was put: a leak names itself.
"""

import itertools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
from psycopg import sql

from launchbay.service_types import key_pairs
from launchbay.store.database import Database
from tests.support.eventually import eventually
from tests.support.network import LoopbackServer
from tests.support.service import BUSY, JSON, Caller, accepted, basic
from tests.support.services import TYPE as VAULT

MANIFEST = """
launch:
  parameters: [{password: {default: none}}, {apiToken: {default: none}}]
  steps: []
call:
  parameters: [{password: {default: none}}, {apiToken: {default: none}}, {url: {default: none}}]
  steps:
    - ask:
        action: restcall
        parameters:
          command: "{$.url}"
          headers: {Authorization: "Bearer {$.apiToken}", X-Password: "{$.password}"}
        output: {said: content}
  return:
    answer: {value: "{$.said}"}
break:
  parameters: [{password: {default: none}}]
  steps:
    - stop: {action: restcall, parameters: {command: "http://somebody:{$.password}@127.0.0.1:1/"}}
told:
  parameters: [{password: {default: none}}, {url: {default: none}}]
  steps:
    - ask: {action: restcall, parameters: {command: "{$.url}", headers: {X-Password: "{$.password}"}}}
destroy: {steps: []}
"""

TYPED = """
application:
  interfaces: {input: {secret-port: bind(w#input.secret-port), tokens: bind(w#input.tokens)}}
  components:
    w:
      type: workflow.Instance
      interfaces: {input: {secret-port: configuration(int), tokens: configuration(list<int>)}}
      configuration:
        input.secret-port: 1
        input.tokens: []
        configuration.workflows: {launch: {steps: []}}
"""


DELIVERIES = 5  # so many there are at least: of two webhooks, and of several jobs


class Canaries:
    """Made-up secrets by the place that they were put in, and real ones that the service made."""

    def __init__(self) -> None:
        self.by_place: dict[str, str] = {}
        self._numbers = itertools.count(1)

    def new(self, place: str) -> str:
        """Return a new secret for a place."""
        assert place not in self.by_place, place
        secret = f"canary{next(self._numbers)}x{re.sub('[^a-z]', '', place.lower())}"
        self.by_place[place] = secret
        return secret

    def caught(self, place: str, secret: str) -> str:
        """Remember a secret that the service made."""
        assert len(secret) >= 16, "too short to be recognized"
        self.by_place[place] = secret
        return secret

    def found_in(self, text: str) -> list[str]:
        """Return the places whose secrets the text holds, as they are or as PostgreSQL shows bytes."""
        spellings = ((place, secret, secret.encode().hex()) for place, secret in self.by_place.items())
        return [place for place, secret, in_hex in spellings if secret in text or in_hex in text]


@dataclass
class Planted:
    """What is there after planting: ids by noun, and the answers that must hold no secret."""

    objects: dict[str, str] = field(default_factory=dict)
    refusals: list[httpx.Response] = field(default_factory=list)
    shown: list[httpx.Response] = field(default_factory=list)  # successes that must cover what they were given


class Planter:
    """Puts canaries through the API, as its administrator."""

    def __init__(self, port: int, admin: httpx.AsyncClient, canaries: Canaries, source: LoopbackServer) -> None:
        self.root = f"http://127.0.0.1:{port}"
        self.admin = Caller(admin)
        self.canaries = canaries
        self.source = source
        self.planted = Planted()
        self.new = canaries.new

    async def plant(self) -> Planted:
        """Put them everywhere."""
        [organization] = accepted(await self.admin.get("organizations"))
        self.planted.objects["organizations"] = organization["id"]
        await self.people()
        await self.credentials()
        await self.pages()
        await self.services()
        await self.keys()
        await self.webhooks()
        await self.sources()
        await self.instances()
        await self.typed()
        await self.revisions()
        await self.changes()
        await self.git_source()
        await self.heard()
        return self.planted

    @property
    def organization(self) -> str:
        return f"organizations/{self.planted.objects['organizations']}"

    def refused(self, answer: httpx.Response) -> None:
        assert answer.status_code >= 400, answer.text
        self.planted.refusals.append(answer)

    def shown(self, answer: httpx.Response) -> None:
        assert answer.status_code == 200, answer.text
        self.planted.shown.append(answer)

    async def made(self, noun: str, path: str, body: Any) -> str:
        self.planted.objects[noun] = str(accepted(await self.admin.post(path, body))["id"])
        return self.planted.objects[noun]

    def caller(self, authorization: str) -> httpx.AsyncClient:
        """Return somebody else at the same server."""
        headers = {"Authorization": authorization}
        return httpx.AsyncClient(base_url=f"{self.root}/api/1/", headers=headers, timeout=30)

    async def people(self) -> None:
        """Passwords of accounts, good ones and those that are refused."""
        users = f"{self.organization}/users"
        first = self.new("password of a new user")
        await self.made("users", users, {"email": "ann@example.org", "name": "Ann", "password": first})
        for number in (1, 2):
            given, password = (
                self.new(f"given password of user {number}"),
                self.new(f"password of another user {number}"),
            )
            body = {"email": f"user{number}@example.org", "name": "U", "password": given, "roles": ["Guest"]}
            accepted(await self.admin.post(users, body))
            async with self.caller(basic(str(body["email"]), given)) as client:
                own = {"currentPassword": given, "newPassword": password}
                accepted(await Caller(client).put("users/me/password", own))
        wrong_type = {"email": "x@example.org", "name": "X", "password": {"deep": self.new("password of a wrong type")}}
        self.refused(await self.admin.post(users, wrong_type))
        taken = {"email": "ann@example.org", "name": "X", "password": self.new("password for a taken address")}
        self.refused(await self.admin.post(users, taken))
        broken = f'{{"email": "y@example.org", "password": "{self.new("password in broken JSON")}'.encode()
        self.refused(await self.admin.send("POST", users, broken, content_type="application/json"))
        async with self.caller(basic("ann@example.org", first)) as client:
            ann = Caller(client)
            wrong = {"currentPassword": self.new("wrong current password"), "newPassword": self.new("unused password")}
            self.refused(await ann.put("users/me/password", wrong))
            long = {"currentPassword": first, "newPassword": self.new("endless password") * 100}
            self.refused(await ann.put("users/me/password", long))
            good = {"currentPassword": first, "newPassword": self.new("changed password")}
            accepted(await ann.put("users/me/password", good))

    async def credentials(self) -> None:
        """What is sent as Authorization, and in headers and queries that nobody asked for."""
        wrong: dict[str, Callable[[str], str]] = {
            "wrong Basic password": lambda secret: basic("ann@example.org", secret),
            "Basic password of nobody": lambda secret: basic("nobody@example.org", secret),
            "Basic password with a control character": lambda secret: basic("ann@example.org", f"{secret}\n"),
            "Basic without base64": lambda secret: f"Basic {secret}",
            "nonsense after Bearer": lambda secret: f"Bearer {secret}",
            "Bearer of three parts": lambda secret: f"Bearer {secret}.{secret}.{secret}",
            "unknown scheme": lambda secret: f"Secret {secret}",
            "one scheme twice": lambda secret: f"Bearer {secret}, Bearer {secret}",
        }
        for place, header in wrong.items():
            async with self.caller(header(self.new(place))) as client:
                self.refused(await client.get("organizations"))
        others = {"Cookie": "session", "X-Api-Key": "key", "Proxy-Authorization": "proxy password"}
        for name, place in others.items():
            accepted(await self.admin.client.get("organizations", headers={name: self.new(place)}))
        accepted(await self.admin.get("organizations", password=self.new("query of a read")))
        self.refused(await self.admin.get(f"organizations/nowhere?token={self.new('query of a refused read')}"))

    async def pages(self) -> None:
        """Refresh tokens, session tokens and invitations, with the pages that they are for."""
        email, password = "user1@example.org", self.canaries.by_place["password of another user 1"]
        async with httpx.AsyncClient(base_url=self.root, headers={"Origin": self.root}, timeout=30) as visitor:
            for number in (1, 2):
                page = await visitor.post("/refreshToken", data={"email": email, "password": password})
                [token] = re.findall(r"lbr_[\w-]+", page.text)
                self.canaries.caught(f"refresh token {number}", token)
                session = accepted(await visitor.post("/refreshToken/jwtBearer", json={"refreshToken": token}))
                self.canaries.caught(f"session token {number}", session["jwtBearer"])
            wrong = {"email": email, "password": self.new("wrong password on the page")}
            self.refused(await visitor.post("/refreshToken", data=wrong))
            unknown = {"refreshToken": f"lbr_{self.new('unknown refresh token')}"}
            self.refused(await visitor.post("/refreshToken/jwtBearer", json=unknown))
            listed = {"refreshToken": [self.new("refresh token of a wrong type")]}
            self.refused(await visitor.post("/refreshToken/jwtBearer", json=listed))
            broken = f'{{"refreshToken": "lbr_{self.new("refresh token in broken JSON")}'
            self.refused(await visitor.post("/refreshToken/jwtBearer", content=broken, headers=JSON))
            await self.invitations(visitor)

    async def invitations(self, visitor: httpx.AsyncClient) -> None:
        """Links that set a first password. Only the page itself may know the link that it was opened with."""
        for number in (1, 2):
            body = {"email": f"guest{number}@example.org", "name": "Guest"}
            link = accepted(await self.admin.post(f"{self.organization}/users", body))["invitation"]
            token = self.canaries.caught(f"invitation {number}", link.rpartition("/")[2])
            self.shown(await visitor.get(f"/invitation/{token}"))
        two = {"password": self.new("first of two passwords"), "repeated": self.new("second of two passwords")}
        self.refused(await visitor.post(f"/invitation/{token}", data=two))
        good = self.new("password of an invited user")
        self.shown(await visitor.post(f"/invitation/{token}", data={"password": good, "repeated": good}))
        self.refused(await visitor.get(f"/invitation/{self.new('unknown invitation')}"))

    async def services(self) -> None:
        """Credentials of services."""
        path, kind = f"{self.organization}/services", "builtin:cloud_account"

        def parameters(place: str, **more: Any) -> dict[str, Any]:
            known = {"configuration.provider": "aws-ec2", "configuration.identity": "AKIA"}
            return {**known, "configuration.credential": self.new(place), **more}

        body = {"name": "Cloud", "typeId": kind, "parameters": parameters("credential of a service")}
        service = await self.made("services", path, body)
        changed = {"configuration.credential": self.new("changed credential")}
        self.shown(await self.admin.put(f"services/{service}", {"parameters": changed}))
        address = f"http://u:{self.new('password in the address of a service')}@h/"
        wrong: list[Mapping[str, Any]] = [
            parameters("credential beside a wrong provider", **{"configuration.provider": "No!"}),
            parameters("hidden credential") | {"configuration.credential": [self.new("credential in a list")]},
            parameters("credential beside the unknown", password=self.new("unknown parameter of a service")),
            parameters("credential beside an address", **{"configuration.endpoint-url": address}),
        ]
        for number, given in enumerate(wrong):
            self.refused(await self.admin.post(path, {"name": f"s{number}", "typeId": kind, "parameters": given}))
            self.refused(await self.admin.put(f"services/{service}", {"parameters": given}))

    async def keys(self) -> None:
        """Private keys of the vault, made there, brought there and refused."""
        rows = accepted(await self.admin.get(f"{self.organization}/services"))
        [vault] = [row["id"] for row in rows if row["typeId"] == VAULT]
        own = key_pairs.generate("ed25519", None, "own").private
        self.canaries.caught("private key that was brought", own.splitlines()[3])
        taken = {"arguments": {"name": "own", "privateKey": own}}
        self.shown(await self.admin.post(f"services/{vault}/import-keypair", taken))
        self.shown(await self.admin.post(f"services/{vault}/generate-keypair", {"arguments": {"name": "web"}}))
        [got] = accepted(await self.admin.post(f"services/{vault}/get-keypair", {"arguments": {"id": "web"}}))
        self.canaries.caught("private key that was made", got["privateKey"].splitlines()[3])
        wrong = {"arguments": {"name": "bad", "privateKey": self.new("private key that is none")}}
        self.refused(await self.admin.post(f"services/{vault}/import-keypair", wrong))

    async def webhooks(self) -> None:
        """Secrets and addresses of webhooks."""
        path = f"{self.organization}/webhooks"
        inside = f"?token={self.new('token in the address of a webhook')}"
        address = self.source.url(f"/{self.new('path of a webhook')}{inside}")
        body = {"url": address, "events": ["status", "job"], "secret": self.new("secret of a webhook")}
        webhook = await self.made("webhooks", path, body)
        accepted(await self.admin.put(f"webhooks/{webhook}", {"secret": self.new("changed secret of a webhook")}))
        without = accepted(await self.admin.post(path, {"url": self.source.url("/"), "events": ["status"]}))
        self.canaries.caught("secret that a webhook was given", without["secret"])
        content = json.dumps({"url": self.source.url("/"), "events": ["signal"]}).encode()
        for _ in range(2):  # the second answer is the kept one
            answer = await self.admin.send(
                "POST", path, content, content_type="application/json", idempotency_key="webhook-1"
            )
            self.canaries.caught("secret of a webhook in a kept answer", accepted(answer)["secret"])
        credentials = self.source.url("/").replace("//", f"//u:{self.new('password in the address of a webhook')}@", 1)
        self.refused(await self.admin.post(path, {"url": credentials, "events": ["status"]}))
        secret = self.new("secret beside an unknown event")
        self.refused(await self.admin.post(path, {"url": address, "events": ["nothing"], "secret": secret}))

    async def sources(self) -> None:
        """Addresses that manifests are loaded from, and values of an environment under secret names."""
        application = await self.made("applications", f"{self.organization}/applications", {"name": "sourced"})
        path = f"applications/{application}/manifestSource"
        accepted(await self.admin.put(path, {"url": self.source.url(f"/m.yaml?token={self.new('token of a source')}")}))
        credentials = self.source.url("/m.yaml").replace("//", f"//u:{self.new('password in a source')}@", 1)
        self.refused(await self.admin.put(path, {"url": credentials}))
        nowhere = f"http://127.0.0.1:1/m.yaml?token={self.new('token of a source that is silent')}"
        self.refused(await self.admin.put(path, {"url": nowhere}))
        [environment] = accepted(await self.admin.get(f"{self.organization}/environments"))
        self.planted.objects["environments"] = environment["id"]
        value = {"name": "password", "value": self.new("property of an environment"), "type": "string"}
        accepted(await self.admin.put(f"environments/{environment['id']}/properties", {"properties": [value]}))

    async def instances(self) -> None:
        """Parameters of launches, workflows, schedules and configurations."""
        application = await self.made("applications", f"{self.organization}/applications", {"name": "app"})
        accepted(await self.admin.put_yaml(f"applications/{application}/manifest", MANIFEST))
        path = f"applications/{application}/launch"
        given = {"password": self.new("password of a launch"), "apiToken": self.new("token of a launch")}
        instance = await self.made("instances", path, {"parameters": given, "destroyInterval": -1})
        accepted(await self.admin.post(path, {"password": self.new("password of an obsolete launch")}))
        version = {"parameters": {"password": self.new("password of an unknown version")}, "version": 99}
        self.refused(await self.admin.post(path, version))
        inner = {"submodules": {"none": {"parameters": {"a.password": self.new("password of an unknown submodule")}}}}
        self.refused(await self.admin.post(path, inner))
        preview = {"parameters": {"password": self.new("password of a preview")}}
        self.shown(await self.admin.post(f"{path}/preview", preview))
        await self.settled(instance)
        await self.workflows(f"instances/{instance}")
        await self.runs(instance)
        at = f"instances/{instance}/configuration"
        target = {"manifestVersion": 99, "parameters": {"password": self.new("password of no version")}}
        self.refused(await self.admin.put(at, target))
        look = {"parameters": {"password": self.new("password of a configuration preview")}}
        self.shown(await self.admin.post(f"{at}/preview", look))
        accepted(await self.admin.put(at, {"parameters": {"password": self.new("password of a configuration")}}))
        await self.settled(instance)

    async def typed(self) -> None:
        """Values that do not fit the types of parameters with secret names."""
        application = accepted(await self.admin.post(f"{self.organization}/applications", {"name": "typed"}))["id"]
        accepted(await self.admin.put_yaml(f"applications/{application}/manifest", TYPED))
        launched = accepted(await self.admin.post(f"applications/{application}/launch", {}))["id"]
        await self.settled(launched)
        for noun, path in (("launch", f"applications/{application}/launch"), ("change", f"instances/{launched}")):
            for pin in ("secret-port", "tokens"):
                given = {"parameters": {f"input.{pin}": self.new(f"{pin} of a wrong type in a {noun}")}}
                if noun == "launch":
                    self.refused(await self.admin.post(path, given))
                else:
                    self.refused(await self.admin.put(f"{path}/configuration", given))
                at = path if noun == "launch" else f"{path}/configuration"
                self.shown(await self.admin.post(f"{at}/preview", given))

    async def workflows(self, at: str) -> None:
        """Parameters of what is refused, scheduled and attached."""
        self.refused(await self.admin.post(f"{at}/fly", {"password": self.new("password of an unknown workflow")}))
        later = {"interval": "999999", "parameters": {"password": self.new("password of a schedule")}}
        accepted(await self.admin.post(f"{at}/call/schedule", later))
        never = {"interval": "-1", "parameters": {"password": self.new("password of an impossible schedule")}}
        self.refused(await self.admin.post(f"{at}/call/schedule", never))
        moved = {"interval": "888888", "parameters": {"password": self.new("password of a moved schedule")}}
        accepted(await self.admin.post(f"{at}/call/reschedule", moved))
        accepted(await self.admin.put(f"{at}/userData", {"password": self.new("password in user data")}))

    async def runs(self, instance: str) -> None:
        """Parameters of workflows that send them, that get them back, and that fail with them."""
        url = self.source.url("/echo")
        given = {"password": self.new("password of a run"), "apiToken": self.new("token of a run"), "url": url}
        accepted(await self.admin.post(f"instances/{instance}/call", given))
        await self.settled(instance)
        told = {"password": self.new("password that a receiver repeats"), "url": self.source.url("/tell")}
        accepted(await self.admin.post(f"instances/{instance}/told", told))
        await self.settled(instance)
        failing = {"password": self.new("password in an address of a run")}
        accepted(await self.admin.post(f"instances/{instance}/break", failing))
        await self.settled(instance)
        job = accepted(await self.admin.get(f"instances/{instance}/jobs"))[0]["id"]
        self.planted.objects["jobs"] = job
        again = {"parameters": {"password": self.new("password of a resumed run")}}
        accepted(await self.admin.post(f"instances/{instance}/jobs/{job}/resume", again))
        await self.settled(instance)

    async def revisions(self) -> None:
        """Parameters of revisions, and a secret in a manifest that cannot be read."""
        at = f"applications/{self.planted.objects['applications']}"
        body = {"name": "r", "version": 2, "parameters": {"password": self.new("password of a revision")}}
        revision = await self.made("revisions", f"{at}/revisions", body)
        changed = {"parameters": {"password": self.new("changed password of a revision")}}
        accepted(await self.admin.put(f"revisions/{revision}", changed))
        wrong = {"name": "s", "version": 99, "parameters": {"password": self.new("password of a refused revision")}}
        self.refused(await self.admin.post(f"{at}/revisions", wrong))
        broken = f"launch: {{steps: [], password: {self.new('password in a broken manifest')}"
        self.refused(await self.admin.put_yaml(f"{at}/manifest", broken))

    async def changes(self) -> None:
        """Parameters of what acts later or on many: change sets, rollouts, bulk runs, recurring schedules."""
        instance, application = self.planted.objects["instances"], self.planted.objects["applications"]
        given = {"password": self.new("password of a change set"), "apiToken": self.new("token of a change set")}
        look = {"act": "reconfigure", "ids": [instance], "configuration": {"parameters": given}}
        await self.made("change-sets", f"{self.organization}/change-sets", look)
        begun = {"parameters": {"password": self.new("password of a launch in a change set")}}
        launch = {"act": "launch", "applicationId": application, "launch": begun}
        self.shown(await self.admin.post(f"{self.organization}/change-sets", launch))
        files = {
            "environments/kept.yaml": "properties: [{name: password, type: string, value: "
            + self.new("password of an environment in a kept directory")
            + "}]\n",
            "applications/kept/manifest.yaml": MANIFEST,
            "applications/kept/revisions/r/revision.yaml": "parameters: {password: "
            + self.new("password of parameters in a kept directory")
            + "}\n",
        }
        self.shown(await self.admin.post(f"{self.organization}/change-sets", {"act": "apply", "files": files}))
        bulk = {
            "act": "run",
            "ids": [instance],
            "workflow": "told",
            "parameters": {"password": self.new("password of a bulk run"), "url": self.source.url("/tell")},
        }
        preview = bulk | {"parameters": {"password": self.new("password of a previewed bulk run")}, "preview": True}
        self.shown(await self.admin.post(f"{self.organization}/bulk", preview))
        await self.made("bulk", f"{self.organization}/bulk", bulk)
        await eventually(
            lambda: self.admin.read(f"bulk/{self.planted.objects['bulk']}"),
            lambda found: found["finishedAt"] is not None,
            within_s=60,
        )
        unfit = bulk | {"workflow": "fly", "parameters": {"password": self.new("password of a refused bulk run")}}
        self.refused(await self.admin.post(f"{self.organization}/bulk", unfit))
        recurring = {
            "name": "nightly",
            "cron": "0 3 * * *",
            "instanceId": instance,
            "workflow": "call",
            "parameters": {"password": self.new("password of a recurring schedule")},
        }
        path = f"{self.organization}/recurring-schedules"
        await self.made("recurring-schedules", path, recurring)
        never = recurring | {"cron": "never", "parameters": {"password": self.new("password of a refused schedule")}}
        self.refused(await self.admin.post(path, never))
        again = bulk | {"parameters": {"password": self.new("password of a repeated bulk run")}}
        repeated = {"name": "weekly", "cron": "0 4 * * 1", "bulk": again}
        self.shown(await self.admin.post(path, repeated))
        await self.rollout(instance, application)

    async def rollout(self, instance: str, application: str) -> None:
        """A rollout whose health check fails with a password in its message."""
        at, manifest = f"applications/{application}/manifest", MANIFEST + "fine: {steps: []}\n"
        version = accepted(await self.admin.put_yaml(at, manifest))["version"]
        wanted = {"applicationId": application, "version": version, "ids": [instance], "healthWorkflow": "break"}
        await self.made("rollouts", f"{self.organization}/rollouts", wanted)
        await eventually(
            lambda: self.admin.read(f"rollouts/{self.planted.objects['rollouts']}"),
            lambda found: found["status"] != "Running",
            within_s=60,
        )

    async def git_source(self) -> None:
        """Parameters of previews, and a password in an address."""
        rows = accepted(await self.admin.get(f"{self.organization}/services"))
        [vault] = [row["id"] for row in rows if row["typeId"] == VAULT]
        events = {"arguments": {"name": "events", "value": self.new("secret that signs events")}}
        accepted(await self.admin.post(f"services/{vault}/set-secret", events))
        account = {"name": "follower", "roles": ["Administrator"]}
        account_id = await self.made("serviceAccounts", f"{self.organization}/serviceAccounts", account)
        previews = {
            "environmentId": self.planted.objects["environments"],
            "lifetimeMs": 3_600_000,
            "parameters": {"password": self.new("password of previews"), "size": 1},
        }
        body = {
            "name": "followed",
            "accountId": account_id,
            "applicationId": self.planted.objects["applications"],
            "url": self.source.url("/team/shop.git"),
            "path": "manifest.yaml",
            "vault": vault,
            "forge": "github",
            "webhookSecret": "events",
            "previews": previews,
        }
        path = f"{self.organization}/git-sources"
        source = await self.made("git-sources", path, body)
        kept = {**previews, "parameters": {"password": "********", "size": 2}}
        self.shown(await self.admin.put(f"git-sources/{source}", {**body, "previews": kept}))
        user = f"//u:{self.new('password in the address of a repository')}@"
        address = self.source.url("/x.git").replace("//", user, 1)
        self.refused(await self.admin.post(path, {**body, "name": "other", "url": address}))

    async def heard(self) -> None:
        """Wait until a webhook was told of the last end of a job."""
        await eventually(
            lambda: sum("launchbay-delivery" in each.headers for each in self.source.received) >= DELIVERIES,
            within_s=60,
        )

    async def settled(self, instance: str) -> None:
        """Wait until no job is under way."""
        await eventually(
            lambda: self.admin.read(f"instances/{instance}"), lambda found: found["status"] not in BUSY, within_s=60
        )


async def stored_texts(database: Database) -> str:
    """Return all rows of all tables as text."""
    found: list[str] = []
    async with database.connection() as connection:
        cursor = await connection.execute("SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'")
        for (table,) in await cursor.fetchall():
            rows = await connection.execute(sql.SQL("SELECT each::text FROM {} AS each").format(sql.Identifier(table)))
            found += (str(text) for (text,) in await rows.fetchall())
    assert len(found) > 20
    return "\n".join(found)
