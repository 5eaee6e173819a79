"""One successful call for every row of the endpoint table that changes something.

A scenario prepares what its call needs and returns the call itself, so that tests can look before and after it.
Whoever adds a row to the table adds its scenario here, or, for a row that changes nothing, its reason to
`CHANGES_NOTHING`.
"""

import time
import zlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import httpx
import msgspec

from launchbay.features.drift.rules import Difference, Finding
from launchbay.ids import new_id
from tests.support.adoption import state_text
from tests.support.drift import boxes
from tests.support.network import LoopbackServer
from tests.support.pages import ORIGIN, browser, send
from tests.support.second_factors import protect
from tests.support.service import PERSON_PASSWORD, Api, Person, accepted, fresh_email, fresh_name, person

Call = Callable[[], Awaitable[httpx.Response]]
Scenario = Callable[["Stage"], Awaitable[Call]]

COMMIT = "5f" * 20
WINDOWS = {"windows": [{"reason": "Holidays", "firstDay": "2026-12-20", "lastDay": "2027-01-04"}]}
MANIFEST = "launch:\n  steps: []\ngreet:\n  steps: []\ndestroy:\n  steps: []\n"

SECRETIVE = """\
application:
  interfaces: { input: { password: bind(web#input.password) } }
  components:
    web:
      type: workflow.Instance
      interfaces: { input: { password: configuration(string) } }
      configuration: { input.password: hush-hush, configuration.workflows: { launch: { steps: [] } } }
"""
FINDING = Finding(
    difference=Difference(
        step="web#launch/infra",
        component="web",
        address="terraform_data.box",
        kind="changed",
        described={"input": 1},
        found={"input": 5},
    ),
    state="new",
    first_seen=1_798_761_600_000,
    last_seen=1_798_761_600_000,
)
# What leaves nothing but its entry in the audit log.
ONLY_NOTED = {"reveal_service_secret", "reveal_instance_secret", "test_secret_provider"}

CHANGES_NOTHING = {
    "receive_git_event": "it makes a source look at its branch: tests of its own in test_forges.py",
    "validate_manifest": "looks at a text and stores nothing",
    "compare_manifest_text": "tells what differs",
    "preview_launch": "tells what would happen",
    "preview_destroy": "tells what would happen",
    "preview_configuration": "tells what would happen",
    "preview_impact": "tells what would happen",
    "preview_revision_impact": "tells what would happen",
    "preview_environment_impact": "tells what would happen",
    "preview_service_impact": "tells what would happen",
    "preview_directory": "tells what would happen",
    "check_role": "tells what would happen",
    "generate_token_with_second_factor": "it uses its code up whatever comes of it: a test of its own in test_audit.py",
    "end_provider_sessions": "it needs a token of a provider: tests of its own in test_openid_logout.py",
}


class Stage:
    """The service whose engine stands still, and a web server to load manifests from."""

    def __init__(self, api: Api, source: LoopbackServer) -> None:
        self.api = api
        self.source = source

    @property
    def organization(self) -> str:
        return f"organizations/{self.api.organization}"

    async def made(self, path: str, body: Any) -> str:
        """Create something and return its id."""
        return str(accepted(await self.api.post(path, body))["id"])

    async def environment(self) -> str:
        return await self.made(f"{self.organization}/environments", {"name": fresh_name("environment")})

    async def role(self) -> str:
        return await self.made(f"{self.organization}/roles", {"name": fresh_name("role"), "permissions": ""})

    async def service(self) -> str:
        body = {
            "name": fresh_name("pool"),
            "typeId": "builtin:static_resource_pool",
            "parameters": {"configuration.resources": ["a"]},
        }
        return await self.made(f"{self.organization}/services", body)

    async def recurring_body(self) -> dict[str, Any]:
        """Return a recurring schedule that isn't due for months."""
        return {"name": "rare", "cron": "0 0 1 1 *", "instanceId": await self.settled(), "workflow": "greet"}

    async def recurring_schedule(self) -> str:
        """Make a recurring schedule that isn't due for months."""
        return await self.made(f"{self.organization}/recurring-schedules", await self.recurring_body())

    async def git_source_body(self) -> dict[str, Any]:
        """Return a paused source in Git, of a service account without roles."""
        body = {"name": fresh_name("source"), "url": "https://git.example.org/shop.git", "paused": True}
        return {**body, "accountId": await self.service_account()}

    async def git_source(self) -> str:
        """Make a source in Git that has applied one commit and planned another one."""
        source = await self.made(f"{self.organization}/git-sources", await self.git_source_body())
        files = zlib.compress(msgspec.msgpack.encode({"roles/None.yaml": b""}))
        statement = "UPDATE git_sources SET applied = %s, files = %s, planned = %s, is_paused = false WHERE id = %s"
        async with self.api.database.transaction() as connection:
            await connection.execute(statement, [COMMIT, files, COMMIT, source])
        return source

    async def secretive(self) -> str:
        """Launch an instance with a password among its parameters."""
        return await self.api.launch(await self.api.application(SECRETIVE))

    async def bulk(self) -> str:
        """Begin a bulk run that waits for the engine."""
        body = {"act": "label", "ids": [await self.launched()], "labels": {"team": "web"}}
        return await self.made(f"{self.organization}/bulk", body)

    async def plan(self) -> str:
        """Return a plan of the caller, of an instance's destruction."""
        body = {"act": "destroy", "instanceId": await self.settled()}
        return await self.made(f"{self.organization}/plans", body)

    async def drifted(self) -> str:
        """Return an instance of which a check has found something: `FINDING`."""
        instance = await self.settled()
        accepted(await self.api.post(f"instances/{instance}/drift/check"))
        async with self.api.database.transaction() as connection:
            statement = "UPDATE drift_reports SET findings = %s, waiting_since = NULL WHERE instance_id = %s"
            await connection.execute(statement, [msgspec.json.encode([FINDING]).decode(), instance])
        return instance

    async def change_set(self, *, approvals: int = 0) -> str:
        """Make a change set, which waits for approval by somebody who isn't its author."""
        instance = await self.settled()
        environment = accepted(await self.api.get(f"instances/{instance}"))["environmentId"]
        await self.change_policy(environment, approvals)
        made = await self.made(f"{self.organization}/change-sets", {"act": "destroy", "ids": [instance]})
        await self.change_policy(environment, 0)
        return made

    async def change_policy(self, environment: str, approvals: int) -> None:
        """Set the policy of an environment."""
        accepted(await self.api.put(f"environments/{environment}/changePolicy", {"approvals": approvals}))

    async def rollout(self) -> str:
        """Begin a rollout that waits for the engine."""
        return await self.made(f"{self.organization}/rollouts", await self.rollout_body())

    async def rollout_body(self) -> dict[str, Any]:
        """Return the body of a rollout to an instance."""
        instance = await self.settled()
        application = accepted(await self.api.get(f"instances/{instance}"))["applicationId"]
        accepted(await self.api.put_yaml(f"applications/{application}/manifest", MANIFEST + "\n"))
        return {"applicationId": application, "version": 3}

    async def webhook(self) -> str:
        """Create a webhook that is switched off, so that no delivery changes the database on its own."""
        body = {"url": "https://hooks.example.com/launchbay", "events": ["signal"]}
        webhook = await self.made(f"{self.organization}/webhooks", body)
        accepted(await self.api.put(f"webhooks/{webhook}", {"enabled": False}))
        return webhook

    async def service_account(self) -> str:
        return await self.made(f"{self.organization}/serviceAccounts", {"name": fresh_name("robot")})

    async def access_token(self) -> str:
        """Create a token of a service account."""
        return await self.made(f"{self.organization}/accessTokens", {"owner": await self.service_account()})

    async def host_key(self) -> str:
        """Pin the key of a host, as its first use does."""
        host = f"host-{fresh_name('key').rpartition(' ')[2]}.example:22"
        statement = "INSERT INTO host_keys (organization_id, host, public_key) VALUES (%s, %s, 'ssh-ed25519 AAAA')"
        async with self.api.database.transaction() as connection:
            await connection.execute(statement, [self.api.organization, host])
        return host

    async def revision(self) -> str:
        return await self.made(f"applications/{await self.api.application()}/revisions", {"name": "r", "version": 1})

    async def launched(self) -> str:
        """Return an instance whose launch waits for the engine."""
        return await self.api.launch(await self.api.application(MANIFEST))

    async def settled(self, status: str = "Running", job_status: str = "Succeeded", instance: str = "") -> str:
        """Return an instance, or a new one, whose launch ended so, as the engine would have left it."""
        instance = instance or await self.launched()
        async with self.api.database.transaction() as connection:
            await connection.execute(
                "UPDATE jobs SET status = %s, started_at = now(), finished_at = now() WHERE instance_id = %s",
                [job_status, instance],
            )
            await connection.execute(
                "UPDATE instances SET status = %s, job_id = NULL WHERE id = %s", [status, instance]
            )
        return instance

    async def failed(self, message: str, status: str = "Failed") -> str:
        """Return an instance whose launch failed with a message."""
        instance = await self.settled(status, "Failed")
        async with self.api.database.transaction() as connection:
            await connection.execute("UPDATE jobs SET error_message = %s WHERE instance_id = %s", [message, instance])
        return instance

    async def approval(self) -> str:
        """Return an approval that a launch waits for, as the engine would have left it."""
        instance, approval = await self.launched(), new_id()
        async with self.api.database.transaction() as connection:
            await connection.execute(
                "INSERT INTO approvals (id, organization_id, instance_id, job_id, step, text, needed, requesters,"
                " not_by_requester, expires_at)"
                " VALUES (%s, %s, %s, %s, 'workflow#launch/ask', 'Go on?', 1, '{}', false, now() + interval '1 year')",
                [approval, self.api.organization, instance, await self.job(instance)],
            )
        return approval

    async def job(self, instance: str) -> str:
        [job] = accepted(await self.api.get(f"instances/{instance}/jobs"))
        return str(job["id"])

    def manifest_at(self) -> str:
        return self.source.url("/m.yaml")


async def create_user(stage: Stage) -> Call:
    return partial(stage.api.post, f"{stage.organization}/users", {"email": fresh_email(), "name": "Ann"})


async def update_user(stage: Stage) -> Call:
    who = await person(stage.api)
    return partial(stage.api.put, f"{stage.organization}/users/{who.id}", {"enabled": False})


async def remove_user(stage: Stage) -> Call:
    who = await person(stage.api, "Guest")
    return partial(stage.api.delete, f"{stage.organization}/users/{who.id}")


async def lift_sign_in_block(stage: Stage) -> Call:
    who = await person(stage.api)
    async with stage.api.database.transaction() as connection:
        await connection.execute(
            "INSERT INTO wrong_sign_ins (key, user_id, level, at, capacity, leak_s) VALUES (%s, %s, 10, now(), 10, 60)",
            [new_id(), who.id],
        )
    return partial(stage.api.delete, f"{stage.organization}/users/{who.id}/signInBlock")


async def create_service_account(stage: Stage) -> Call:
    return partial(stage.api.post, f"{stage.organization}/serviceAccounts", {"name": fresh_name("robot")})


async def put_directory_object(stage: Stage) -> Call:
    account = {"kind": "service-account", "name": fresh_name("robot"), "content": "description: Builds\n"}
    return partial(stage.api.put, f"{stage.organization}/directory", account)


async def update_service_account(stage: Stage) -> Call:
    account = await stage.service_account()
    return partial(stage.api.put, f"{stage.organization}/serviceAccounts/{account}", {"description": "Builds"})


async def delete_service_account(stage: Stage) -> Call:
    return partial(stage.api.delete, f"{stage.organization}/serviceAccounts/{await stage.service_account()}")


async def create_access_token(stage: Stage) -> Call:
    body = {"scope": ["Read: [/*]"], "owner": await stage.service_account()}
    return partial(stage.api.post, f"{stage.organization}/accessTokens", body)


async def revoke_access_token(stage: Stage) -> Call:
    return partial(stage.api.delete, f"{stage.organization}/accessTokens/{await stage.access_token()}")


async def assign_roles(stage: Stage) -> Call:
    who = await person(stage.api)
    return partial(stage.api.put, f"{stage.organization}/users/{who.id}/roles", ["Guest"])


async def revoke_roles(stage: Stage) -> Call:
    who = await person(stage.api, "Guest")
    return partial(stage.api.delete, f"{stage.organization}/users/{who.id}/roles", ["Guest"])


async def create_organization(stage: Stage) -> Call:
    return partial(stage.api.post, "organizations", {"name": fresh_name("organization")})


async def import_organization(stage: Stage) -> Call:
    archive = accepted(await stage.api.get(f"{stage.organization}/archive"))
    return partial(stage.api.post, "archives", {"archive": archive, "name": fresh_name("organization")})


async def import_organization_lines(stage: Stage) -> Call:
    lines = (await stage.api.get(f"{stage.organization}/archive/lines")).content
    path = f"archives/lines?name={fresh_name('organization').replace(' ', '+')}"
    return partial(stage.api.send, "POST", path, lines, content_type="application/x-ndjson")


async def rename_organization(stage: Stage) -> Call:
    return partial(stage.api.put, stage.organization, {"name": fresh_name("organization")})


async def create_role(stage: Stage) -> Call:
    body = {"name": fresh_name("role"), "permissions": "- Read: [/*]\n"}
    return partial(stage.api.post, f"{stage.organization}/roles", body)


async def update_role(stage: Stage) -> Call:
    body = {"name": fresh_name("role"), "permissions": "- Read: [/*]\n"}
    return partial(stage.api.put, f"roles/{await stage.role()}", body)


async def delete_role(stage: Stage) -> Call:
    return partial(stage.api.delete, f"roles/{await stage.role()}")


async def change_password(stage: Stage) -> Call:
    who = await person(stage.api)
    return partial(
        who.put, "users/me/password", {"currentPassword": PERSON_PASSWORD, "newPassword": "another one of theirs"}
    )


async def generate_token(stage: Stage) -> Call:
    who = await person(stage.api)

    async def call() -> httpx.Response:
        async with browser(stage.api) as visitor:
            fields = {"email": who.email, "password": PERSON_PASSWORD}
            return await visitor.post("/refreshToken", data=fields, headers={"Origin": ORIGIN})

    return call


async def sign_in_with_form(stage: Stage) -> Call:
    who = await person(stage.api)

    async def call() -> httpx.Response:
        async with browser(stage.api) as visitor:
            return await visitor.post("/signIn", data={"email": who.email, "password": PERSON_PASSWORD})

    return call


async def exchange_token(stage: Stage) -> Call:
    who = await person(stage.api)
    async with browser(stage.api) as visitor:
        token = (await send(visitor, "/refreshToken", email=who.email, password=PERSON_PASSWORD)).token

    async def call() -> httpx.Response:
        async with browser(stage.api) as visitor:
            return await visitor.post("/refreshToken/jwtBearer", json={"refreshToken": token})

    return call


async def revoke_token(stage: Stage) -> Call:
    who = await person(stage.api)
    async with browser(stage.api) as visitor:
        await send(visitor, "/refreshToken", email=who.email, password=PERSON_PASSWORD)
    [token] = accepted(await who.get("tokens"))
    return partial(who.delete, f"tokens/{token['id']}")


async def generate_token_with_second_factor(stage: Stage) -> Call:
    who = await person(stage.api)
    codes = await protect(stage.api, who)
    async with browser(stage.api) as visitor:
        page = await send(visitor, "/refreshToken", email=who.email, password=PERSON_PASSWORD)

    async def call() -> httpx.Response:
        async with browser(stage.api) as visitor:
            fields = {"token": page.fields["token"], "code": codes.next(), "label": ""}
            return await visitor.post("/refreshToken/secondFactor", data=fields, headers={"Origin": ORIGIN})

    return call


async def reset_second_factors(stage: Stage) -> Call:
    who = await person(stage.api)
    await protect(stage.api, who)
    return partial(stage.api.delete, f"{stage.organization}/users/{who.id}/secondFactors")


async def write_sign_in_policy(stage: Stage) -> Call:
    return partial(stage.api.put, f"{stage.organization}/signInPolicy", {"secondFactorRequired": False})


async def sign_out_everywhere(stage: Stage) -> Call:
    who = await person(stage.api)
    return partial(who.delete, "users/me/sessions")


async def accept_invitation(stage: Stage) -> Call:
    body = {"email": fresh_email(), "name": "Ann"}
    link = accepted(await stage.api.post(f"{stage.organization}/users", body))["invitation"]

    async def call() -> httpx.Response:
        async with browser(stage.api) as visitor:
            return await visitor.post(link, data={"password": PERSON_PASSWORD, "repeated": PERSON_PASSWORD})

    return call


async def _invited(stage: Stage) -> tuple[Person, str]:
    """Return somebody of another organization, and the link that invites them."""
    outsider, organization, _ = await stage.api.outsider()
    who = await person(stage.api, organization=organization, by=outsider)
    added = await stage.api.post(f"{stage.organization}/users", {"email": who.email, "name": "Ann"})
    return who, str(accepted(added)["invitation"])


async def accept_membership(stage: Stage) -> Call:
    who, link = await _invited(stage)
    return partial(who.post, "users/me/invitations", {"invitation": link})


async def decline_membership(stage: Stage) -> Call:
    who, _ = await _invited(stage)
    [offered] = accepted(await who.get("users/me/invitations"))
    return partial(who.delete, f"users/me/invitations/{offered['id']}")


async def leave_organization(stage: Stage) -> Call:
    who = await person(stage.api, "Guest")
    return partial(who.delete, f"users/me/organizations/{stage.api.organization}")


async def replace_group_roles(stage: Stage) -> Call:
    return partial(stage.api.put, f"{stage.organization}/groupRoles", [{"group": fresh_name(), "roles": ["Guest"]}])


async def create_application(stage: Stage) -> Call:
    return partial(stage.api.post, f"{stage.organization}/applications", {"name": fresh_name("app")})


async def rename_application(stage: Stage) -> Call:
    return partial(stage.api.put, f"applications/{await stage.api.application()}", {"name": fresh_name("app")})


async def delete_application(stage: Stage) -> Call:
    return partial(stage.api.delete, f"applications/{await stage.api.application()}")


async def replace_manifest(stage: Stage) -> Call:
    return partial(stage.api.put_yaml, f"applications/{await stage.api.application()}/manifest", MANIFEST)


async def set_manifest_source(stage: Stage) -> Call:
    application = await stage.api.application()
    return partial(stage.api.put, f"applications/{application}/manifestSource", {"url": stage.manifest_at()})


async def refresh_manifest(stage: Stage) -> Call:
    application = await stage.api.application()
    path = f"applications/{application}/manifestSource"
    accepted(await stage.api.put(path, {"url": stage.manifest_at()}))
    async with stage.api.database.connection() as connection:
        await connection.execute("UPDATE manifests SET content = '{}' WHERE application_id = %s", [application])
    return partial(stage.api.post, f"{path}/refresh")


async def create_revision(stage: Stage) -> Call:
    application = await stage.api.application()
    return partial(stage.api.post, f"applications/{application}/revisions", {"name": "stable", "version": 1})


async def change_revision(stage: Stage) -> Call:
    return partial(stage.api.put, f"revisions/{await stage.revision()}", {"name": "renamed"})


async def delete_revision(stage: Stage) -> Call:
    return partial(stage.api.delete, f"revisions/{await stage.revision()}")


async def create_environment(stage: Stage) -> Call:
    return partial(stage.api.post, f"{stage.organization}/environments", {"name": fresh_name("environment")})


async def rename_environment(stage: Stage) -> Call:
    return partial(stage.api.put, f"environments/{await stage.environment()}/name", {"name": fresh_name("environment")})


async def clone_environment(stage: Stage) -> Call:
    return partial(stage.api.post, f"environments/{stage.api.environment}/clone")


async def delete_environment(stage: Stage) -> Call:
    return partial(stage.api.delete, f"environments/{await stage.environment()}")


async def set_default_environment(stage: Stage) -> Call:
    body = {"environmentId": await stage.environment()}
    return partial(stage.api.put, f"{stage.organization}/defaultEnvironment", body)


async def replace_policies(stage: Stage) -> Call:
    return partial(stage.api.put_yaml, f"environments/{await stage.environment()}", "policies: {a.b: true}\n")


async def replace_markers(stage: Stage) -> Call:
    return partial(stage.api.put, f"environments/{await stage.environment()}/markers", {"markers": [{"name": "m"}]})


async def replace_properties(stage: Stage) -> Call:
    body = {"properties": [{"name": "p", "value": 1, "type": "int"}]}
    return partial(stage.api.put, f"environments/{await stage.environment()}/properties", body)


async def replace_environment_services(stage: Stage) -> Call:
    body = {"services": [await stage.service()]}
    return partial(stage.api.put, f"environments/{await stage.environment()}/services", body)


async def create_service(stage: Stage) -> Call:
    body = {"name": fresh_name("vault"), "typeId": "builtin:cobalt_secure_store"}
    return partial(stage.api.post, f"{stage.organization}/services", body)


async def update_service(stage: Stage) -> Call:
    return partial(stage.api.put, f"services/{await stage.service()}", {"name": fresh_name("pool")})


async def delete_service(stage: Stage) -> Call:
    return partial(stage.api.delete, f"services/{await stage.service()}")


async def run_service_command(stage: Stage) -> Call:
    return partial(stage.api.post, f"services/{await stage.service()}/acquire", {"arguments": {"holder": "me"}})


async def test_secret_provider(stage: Stage) -> Call:
    given = {"configuration.sign-in": "approle", "configuration.role-id": "a", "configuration.secret-id": "b"}
    given["configuration.address"] = stage.source.url()
    body = {"name": fresh_name("vault"), "typeId": "builtin:openbao", "parameters": given}
    service = await stage.made(f"{stage.organization}/services", body)
    environment = await stage.environment()
    accepted(await stage.api.put(f"environments/{environment}/services", {"services": [service]}))
    tested = {"environmentId": environment, "paths": ["secret/shop"]}
    return partial(stage.api.post, f"services/{service}/provider/test", tested)


async def launch_application(stage: Stage) -> Call:
    return partial(stage.api.post, f"applications/{await stage.api.application()}/launch", {})


async def adopt_instance(stage: Stage) -> Call:
    states = [{"component": "web", "state": state_text(fresh_name("lineage"))}]
    return partial(stage.api.post, f"applications/{await stage.api.application(boxes())}/adoptions", {"states": states})


async def run_workflow(stage: Stage) -> Call:
    return partial(stage.api.post, f"instances/{await stage.settled()}/greet", {})


async def schedule_workflow(stage: Stage) -> Call:
    return partial(stage.api.post, f"instances/{await stage.settled()}/greet/schedule", {"interval": "60000"})


async def reschedule_workflow(stage: Stage) -> Call:
    instance = await stage.settled()
    accepted(await stage.api.post(f"instances/{instance}/greet/schedule", {"interval": "60000"}))
    return partial(stage.api.post, f"instances/{instance}/greet/reschedule", {"interval": "0"})


async def put_user_data(stage: Stage) -> Call:
    return partial(stage.api.put, f"instances/{await stage.launched()}/userData", {"ticket": "OPS-17"})


async def create_bulk(stage: Stage) -> Call:
    body = {"act": "label", "ids": [await stage.launched()], "labels": {"team": "web"}}
    return partial(stage.api.post, f"{stage.organization}/bulk", body)


async def resume_failures(stage: Stage) -> Call:
    chosen = f"instance={await stage.settled('Failed', 'Failed')}"
    [failure] = accepted(await stage.api.get(f"{stage.organization}/failures?{chosen}"))
    return partial(stage.api.post, f"{stage.organization}/failures/{failure['id']}/resume?{chosen}")


async def pause_bulk(stage: Stage) -> Call:
    return partial(stage.api.post, f"bulk/{await stage.bulk()}/pause")


async def continue_bulk(stage: Stage) -> Call:
    bulk = await stage.bulk()
    accepted(await stage.api.post(f"bulk/{bulk}/pause"))
    return partial(stage.api.post, f"bulk/{bulk}/continue")


async def cancel_bulk(stage: Stage) -> Call:
    return partial(stage.api.post, f"bulk/{await stage.bulk()}/cancel")


async def create_recurring_schedule(stage: Stage) -> Call:
    body = await stage.recurring_body()
    return partial(stage.api.post, f"{stage.organization}/recurring-schedules", body)


async def update_recurring_schedule(stage: Stage) -> Call:
    body = {"name": "rarer", "cron": "0 0 1 2 *"}
    return partial(stage.api.put, f"recurring-schedules/{await stage.recurring_schedule()}", body)


async def pause_recurring_schedule(stage: Stage) -> Call:
    return partial(stage.api.post, f"recurring-schedules/{await stage.recurring_schedule()}/pause")


async def resume_recurring_schedule(stage: Stage) -> Call:
    schedule = await stage.recurring_schedule()
    accepted(await stage.api.post(f"recurring-schedules/{schedule}/pause"))
    return partial(stage.api.post, f"recurring-schedules/{schedule}/resume")


async def delete_recurring_schedule(stage: Stage) -> Call:
    return partial(stage.api.delete, f"recurring-schedules/{await stage.recurring_schedule()}")


async def create_git_source(stage: Stage) -> Call:
    return partial(stage.api.post, f"{stage.organization}/git-sources", await stage.git_source_body())


async def update_git_source(stage: Stage) -> Call:
    return partial(stage.api.put, f"git-sources/{await stage.git_source()}", await stage.git_source_body())


async def delete_git_source(stage: Stage) -> Call:
    return partial(stage.api.delete, f"git-sources/{await stage.git_source()}")


async def sync_git_source(stage: Stage) -> Call:
    return partial(stage.api.post, f"git-sources/{await stage.git_source()}/sync")


async def apply_git_source(stage: Stage) -> Call:
    return partial(stage.api.post, f"git-sources/{await stage.git_source()}/apply", {"commit": COMMIT})


async def create_plan(stage: Stage) -> Call:
    return partial(
        stage.api.post, f"{stage.organization}/plans", {"act": "destroy", "instanceId": await stage.settled()}
    )


async def delete_plan(stage: Stage) -> Call:
    return partial(stage.api.delete, f"plans/{await stage.plan()}")


async def check_drift(stage: Stage) -> Call:
    return partial(stage.api.post, f"instances/{await stage.settled()}/drift/check")


async def ignore_drift(stage: Stage) -> Call:
    body = {"reason": "The autoscaler does that.", "until": int((time.time() + 86_400) * 1000)}
    return partial(stage.api.put, f"instances/{await stage.drifted()}/drift/findings/{FINDING.id}/ignored", body)


async def watch_drift(stage: Stage) -> Call:
    ignoring = await ignore_drift(stage)
    accepted(await ignoring())
    assert isinstance(ignoring, partial)
    return partial(stage.api.delete, ignoring.args[0])


async def put_back_drift(stage: Stage) -> Call:
    return partial(stage.api.post, f"instances/{await stage.drifted()}/drift/put-back")


async def take_over_drift(stage: Stage) -> Call:
    return partial(stage.api.post, f"instances/{await stage.drifted()}/drift/findings/{FINDING.id}/take-over")


NIGHTLY = {"cron": "0 3 * * *", "zone": "Europe/Berlin", "jitter": 3_600_000}


async def set_application_drift_schedule(stage: Stage) -> Call:
    return partial(stage.api.put, f"applications/{await stage.api.application()}/drift-schedule", NIGHTLY)


async def set_environment_drift_schedule(stage: Stage) -> Call:
    return partial(stage.api.put, f"environments/{await stage.environment()}/drift-schedule", NIGHTLY)


RULE = {"addresses": ["terraform_data.*"]}


async def set_application_put_back_rule(stage: Stage) -> Call:
    return partial(stage.api.put, f"applications/{await stage.api.application()}/put-back-rule", RULE)


async def set_environment_put_back_rule(stage: Stage) -> Call:
    return partial(stage.api.put, f"environments/{await stage.environment()}/put-back-rule", RULE)


async def set_put_back_rule(stage: Stage) -> Call:
    return partial(stage.api.put, f"instances/{await stage.settled()}/drift/put-back-rule", RULE)


async def set_drift_schedule(stage: Stage) -> Call:
    return partial(stage.api.put, f"instances/{await stage.settled()}/drift/check-schedule", NIGHTLY)


async def create_change_set(stage: Stage) -> Call:
    body = {"act": "destroy", "ids": [await stage.settled()]}
    return partial(stage.api.post, f"{stage.organization}/change-sets", body)


async def approve_change_set(stage: Stage) -> Call:
    return await _answered_change_set(stage, "approve")


async def reject_change_set(stage: Stage) -> Call:
    return await _answered_change_set(stage, "reject")


async def _answered_change_set(stage: Stage, verb: str) -> Call:
    change_set = await stage.change_set(approvals=1)
    approver = await stage.api.member("Read: [/*]", "ApproveInstanceWorkflow: [/*]")
    return partial(approver.post, f"change-sets/{change_set}/{verb}", {"comment": "seen"})


async def apply_change_set(stage: Stage) -> Call:
    return partial(stage.api.post, f"change-sets/{await stage.change_set()}/apply")


async def delete_change_set(stage: Stage) -> Call:
    return partial(stage.api.delete, f"change-sets/{await stage.change_set()}")


async def set_freeze(stage: Stage) -> Call:
    return partial(stage.api.put, f"environments/{await stage.environment()}/freeze", {"reason": "An incident."})


async def lift_freeze(stage: Stage) -> Call:
    path = f"environments/{await stage.environment()}/freeze"
    accepted(await stage.api.put(path, {"reason": "An incident."}))
    return partial(stage.api.delete, path)


async def replace_freeze_windows(stage: Stage) -> Call:
    return partial(stage.api.put, f"environments/{await stage.environment()}/freeze-windows", WINDOWS)


async def set_application_freeze(stage: Stage) -> Call:
    return partial(stage.api.put, f"applications/{await stage.api.application()}/freeze", {"reason": "An incident."})


async def lift_application_freeze(stage: Stage) -> Call:
    path = f"applications/{await stage.api.application()}/freeze"
    accepted(await stage.api.put(path, {"reason": "An incident."}))
    return partial(stage.api.delete, path)


async def replace_application_freeze_windows(stage: Stage) -> Call:
    return partial(stage.api.put, f"applications/{await stage.api.application()}/freeze-windows", WINDOWS)


RULES = {"rules": "- name: one\n  warn: Something changes.\n"}


async def replace_organization_rules(stage: Stage) -> Call:
    return partial(stage.api.put, f"{stage.organization}/change-rules", {"rules": f"# {fresh_name('rules')}\n"})


async def replace_application_rules(stage: Stage) -> Call:
    return partial(stage.api.put, f"applications/{await stage.api.application(MANIFEST)}/change-rules", RULES)


async def replace_environment_rules(stage: Stage) -> Call:
    return partial(stage.api.put, f"environments/{await stage.environment()}/change-rules", RULES)


async def replace_promotion_order(stage: Stage) -> Call:
    stages = [{"environmentId": await stage.environment()}]
    return partial(stage.api.put, f"{stage.organization}/promotion-order", {"stages": stages})


async def replace_application_promotion_order(stage: Stage) -> Call:
    stages = [{"environmentId": await stage.environment()}]
    return partial(stage.api.put, f"applications/{await stage.api.application()}/promotion-order", {"stages": stages})


async def promote_version(stage: Stage) -> Call:
    application, places = await stage.api.application(MANIFEST), [await stage.environment() for _ in range(2)]
    accepted(await stage.api.put_yaml(f"applications/{application}/manifest", f"{MANIFEST}\n# another version\n"))
    for place, version in zip(places, (3, 2), strict=True):
        await stage.settled(instance=await stage.api.launch(application, environmentId=place, version=version))
    stages = [{"environmentId": each} for each in places]
    accepted(await stage.api.put(f"applications/{application}/promotion-order", {"stages": stages}))
    body = {"fromId": places[0], "toId": places[1]}
    return partial(stage.api.post, f"applications/{application}/promotions", body)


async def set_change_policy(stage: Stage) -> Call:
    return partial(stage.api.put, f"environments/{await stage.environment()}/changePolicy", {"approvals": 1})


async def create_rollout(stage: Stage) -> Call:
    return partial(stage.api.post, f"{stage.organization}/rollouts", await stage.rollout_body())


async def stop_rollout(stage: Stage) -> Call:
    return partial(stage.api.post, f"rollouts/{await stage.rollout()}/stop")


async def continue_rollout(stage: Stage) -> Call:
    rollout = await stage.rollout()
    accepted(await stage.api.post(f"rollouts/{rollout}/stop"))
    return partial(stage.api.post, f"rollouts/{rollout}/continue")


async def take_back_rollout(stage: Stage) -> Call:
    return partial(stage.api.post, f"rollouts/{await stage.rollout()}/take-back")


async def put_instance_labels(stage: Stage) -> Call:
    return partial(stage.api.put, f"instances/{await stage.launched()}/labels", {"team": "web"})


async def replace_views(stage: Stage) -> Call:
    return partial(
        stage.api.put, f"{stage.organization}/views", {"views": [{"name": "Mine", "query": "status:failed"}]}
    )


async def put_application_labels(stage: Stage) -> Call:
    return partial(stage.api.put, f"applications/{await stage.api.application(MANIFEST)}/labels", {"team": "web"})


async def put_environment_labels(stage: Stage) -> Call:
    return partial(stage.api.put, f"environments/{await stage.environment()}/labels", {"team": "web"})


async def delete_instance(stage: Stage) -> Call:
    return partial(stage.api.delete, f"instances/{await stage.settled('Destroyed')}")


async def reconfigure_instance(stage: Stage) -> Call:
    return partial(stage.api.put, f"instances/{await stage.settled()}/configuration", {"instanceName": "renamed"})


async def rollback_instance(stage: Stage) -> Call:
    return partial(stage.api.post, f"instances/{await stage.settled()}/configuration/rollback", {"generation": 1})


async def set_failure_policy(stage: Stage) -> Call:
    path = f"applications/{await stage.api.application(MANIFEST)}/failurePolicy"
    return partial(stage.api.put, path, {"onFailure": "rollback"})


async def replace_application_concurrency(stage: Stage) -> Call:
    path = f"applications/{await stage.api.application(MANIFEST)}/concurrency"
    return partial(stage.api.put, path, {"limits": [{"limit": 1}]})


async def replace_environment_concurrency(stage: Stage) -> Call:
    return partial(stage.api.put, f"environments/{await stage.environment()}/concurrency", {"limits": [{"limit": 1}]})


async def replace_application_lifetime(stage: Stage) -> Call:
    path = f"applications/{await stage.api.application(MANIFEST)}/lifetime"
    return partial(stage.api.put, path, {"extensions": 3})


async def replace_environment_lifetime(stage: Stage) -> Call:
    return partial(stage.api.put, f"environments/{await stage.environment()}/lifetime", {"extensions": 3})


_SLEEP = {"windows": [{"sleepAt": "20:00", "wakeAt": "07:00", "zone": "Europe/Berlin"}]}


async def replace_application_sleep(stage: Stage) -> Call:
    path = f"applications/{await stage.api.application(MANIFEST)}/sleep"
    return partial(stage.api.put, path, _SLEEP)


async def replace_environment_audiences(stage: Stage) -> Call:
    path = f"environments/{await stage.environment()}/audiences"
    return partial(stage.api.put, path, {"audiences": ["vault"]})


async def replace_environment_sleep(stage: Stage) -> Call:
    return partial(stage.api.put, f"environments/{await stage.environment()}/sleep", _SLEEP)


async def keep_awake(stage: Stage) -> Call:
    instance = await stage.settled()
    application = (await stage.api.document(instance))["applicationId"]
    accepted(await stage.api.put(f"applications/{application}/sleep", _SLEEP))
    until = (int(time.time()) + 300 * 86_400) * 1_000  # the clock of some tests is months ahead
    return partial(stage.api.put, f"instances/{instance}/sleep/awake-until", {"awakeUntil": until})


async def extend_instance(stage: Stage) -> Call:
    return partial(stage.api.post, f"instances/{await stage.settled()}/lifetime/extend", {"byMs": 60_000})


async def undo_destroy(stage: Stage) -> Call:
    instance = await stage.settled()
    application = (await stage.api.document(instance))["applicationId"]
    accepted(await stage.api.put(f"applications/{application}/lifetime", {"graceMs": 3_600_000}))
    accepted(await stage.api.post(f"instances/{instance}/destroy"))
    return partial(stage.api.post, f"instances/{instance}/lifetime/undo-destroy")


async def replace_instance_environments(stage: Stage) -> Call:
    body = {"environments": [await stage.environment()]}
    return partial(stage.api.put, f"instances/{await stage.settled()}/environments", body)


async def set_destroy_at(stage: Stage) -> Call:
    return partial(stage.api.put, f"instances/{await stage.settled()}/destroyAt", {"destroyAt": -1})


async def create_webhook(stage: Stage) -> Call:
    body = {"url": "https://hooks.example.com/launchbay", "events": ["signal"]}
    return partial(stage.api.post, f"{stage.organization}/webhooks", body)


async def update_webhook(stage: Stage) -> Call:
    return partial(stage.api.put, f"webhooks/{await stage.webhook()}", {"events": ["job"]})


async def test_webhook(stage: Stage) -> Call:
    webhook = await stage.made(f"{stage.organization}/webhooks", {"url": "http://127.0.0.1:9/", "events": ["job"]})
    return partial(stage.api.post, f"webhooks/{webhook}/test")


async def retry_deliveries(stage: Stage) -> Call:
    webhook = await stage.made(f"{stage.organization}/webhooks", {"url": "http://127.0.0.1:9/", "events": ["job"]})
    accepted(await stage.api.post(f"webhooks/{webhook}/test"))
    for enabled in (False, True):  # a webhook that is switched off drops what waits
        accepted(await stage.api.put(f"webhooks/{webhook}", {"enabled": enabled}))
    return partial(stage.api.post, f"webhooks/{webhook}/retry")


async def delete_webhook(stage: Stage) -> Call:
    return partial(stage.api.delete, f"webhooks/{await stage.webhook()}")


async def reveal_service_secret(stage: Stage) -> Call:
    body = {
        "name": fresh_name("cloud"),
        "typeId": "builtin:cloud_account",
        "parameters": {
            "configuration.provider": "aws-ec2",
            "configuration.identity": "me",
            "configuration.credential": "hush-hush",
        },
    }
    service = await stage.made(f"{stage.organization}/services", body)
    revealed = {"name": "configuration.credential", "reason": "The provider asks for it."}
    return partial(stage.api.post, f"services/{service}/secrets/reveal", revealed)


async def reveal_instance_secret(stage: Stage) -> Call:
    body = {"name": "input.password", "reason": "To sign in."}
    return partial(stage.api.post, f"instances/{await stage.secretive()}/secrets/reveal", body)


async def forget_host_key(stage: Stage) -> Call:
    return partial(stage.api.delete, f"{stage.organization}/hostKeys/{await stage.host_key()}")


async def cancel_job(stage: Stage) -> Call:
    instance = await stage.launched()
    return partial(stage.api.delete, f"instances/{instance}/jobs/{await stage.job(instance)}")


async def resume_job(stage: Stage) -> Call:
    instance = await stage.settled("Failed", "Failed")
    return partial(stage.api.post, f"instances/{instance}/jobs/{await stage.job(instance)}/resume", {})


async def approve(stage: Stage) -> Call:
    return partial(stage.api.post, f"approvals/{await stage.approval()}/approve", {"comment": "yes"})


async def reject(stage: Stage) -> Call:
    return partial(stage.api.post, f"approvals/{await stage.approval()}/reject", {"comment": "no"})


SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for scenario in (
        create_user, update_user, remove_user, lift_sign_in_block, assign_roles, revoke_roles,
        put_directory_object, create_service_account, update_service_account, delete_service_account,
        create_access_token, revoke_access_token,
        create_organization, import_organization, import_organization_lines, rename_organization,
        create_role, update_role, delete_role,
        change_password, generate_token, sign_in_with_form, exchange_token, revoke_token, sign_out_everywhere,
        accept_invitation,
        accept_membership, decline_membership, leave_organization,
        reset_second_factors, write_sign_in_policy,
        replace_group_roles, create_application, rename_application, delete_application,
        replace_manifest, set_manifest_source, refresh_manifest,
        create_revision, change_revision, delete_revision,
        create_environment, rename_environment, clone_environment, delete_environment, set_default_environment,
        replace_policies, replace_markers, replace_properties, replace_environment_services,
        create_service, update_service, delete_service, run_service_command, test_secret_provider,
        reveal_service_secret, reveal_instance_secret,
        launch_application, run_workflow, schedule_workflow, reschedule_workflow,
        put_user_data, delete_instance, reconfigure_instance, cancel_job, resume_job, approve, reject,
        replace_instance_environments, set_destroy_at, rollback_instance, set_failure_policy,
        replace_application_concurrency, replace_environment_concurrency,
        replace_application_lifetime, replace_environment_lifetime, extend_instance, undo_destroy,
        replace_application_sleep, replace_environment_sleep, keep_awake, replace_environment_audiences,
        create_bulk, pause_bulk, continue_bulk, cancel_bulk, resume_failures,
        create_recurring_schedule, update_recurring_schedule, pause_recurring_schedule, resume_recurring_schedule,
        delete_recurring_schedule,
        create_git_source, update_git_source, delete_git_source, sync_git_source, apply_git_source,
        create_change_set, approve_change_set, reject_change_set, apply_change_set, delete_change_set,
        set_change_policy,
        replace_organization_rules, replace_application_rules, replace_environment_rules,
        replace_promotion_order, replace_application_promotion_order, promote_version,
        set_freeze,
        lift_freeze,
        replace_freeze_windows,
        set_application_freeze,
        lift_application_freeze,
        replace_application_freeze_windows,
        create_plan,
        delete_plan,
        adopt_instance, check_drift, ignore_drift, watch_drift, put_back_drift, take_over_drift,
        set_drift_schedule, set_application_drift_schedule, set_environment_drift_schedule,
        set_put_back_rule, set_application_put_back_rule, set_environment_put_back_rule,
        create_rollout, stop_rollout, continue_rollout, take_back_rollout,
        put_instance_labels, put_application_labels, put_environment_labels, replace_views,
        create_webhook, update_webhook, test_webhook, retry_deliveries, delete_webhook, forget_host_key,
    )
}  # fmt: skip
