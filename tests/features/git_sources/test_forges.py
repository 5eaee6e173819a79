"""Events, previews and statuses over HTTP: signed events make the real engine follow real repositories."""

import base64
import hashlib
import hmac
import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from launchbay.auth.secret_key import read_secret_key
from launchbay.clock import Backoff
from launchbay.features.git_sources import previews as forges
from launchbay.features.git_sources.rows import parameters_purpose
from launchbay.features.git_sources.usecases import seal_parameters
from tests.support.databases import Databases
from tests.support.engine import ask, until
from tests.support.eventually import eventually
from tests.support.git_server import Follower, GitServer, Repository, account, needs_git
from tests.support.network import LoopbackServer, answer, loopback_server
from tests.support.service import Api, accepted, fresh_name, refused, running_api
from tests.support.services import everything_stored, made_vault, told

pytestmark = needs_git
MANIFEST = """
launch:
  parameters: [{size: {default: 1}}]
  steps: []
  return: {said: {value: '%s'}}
destroy: {steps: []}
"""
SECRET, TOKEN = "a secret for events", "a token for statuses"


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    settings: dict[str, Any] = {"outgoing_allow": "127.0.0.1", "server_programs": "git", "base_url": "http://launchbay"}
    async with running_api(url, **settings) as api:
        yield api
    databases.drop(url)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with GitServer(tmp_path_factory.mktemp("repositories")) as server:
        yield server


@pytest.fixture(scope="module")
async def follower(api: Api, server: GitServer) -> Follower:
    return Follower(api, server, await account(api, "Administrator"))


@pytest.fixture(scope="module")
async def vault(api: Api) -> str:
    found = await made_vault(api)
    await told(api, found, "set-secret", name="events", value=SECRET)
    await told(api, found, "set-secret", name="statuses", value=TOKEN)
    return found


@pytest.fixture
def repository(server: GitServer, request: pytest.FixtureRequest) -> Repository:
    return server.repository(re.sub(r"\W+", "-", request.node.name).strip("-"))


@pytest.fixture
async def forge() -> AsyncIterator[LoopbackServer]:
    """Stands at the place of a forge's API, and takes statuses."""
    async with loopback_server() as server:
        yield server


async def send(api: Api, source: str, kind: str, document: Any, *, secret: str = SECRET, body: bytes = b"") -> Any:
    body = body or json.dumps(document).encode()
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    headers = {"content_type": "application/json", "x_github_event": kind, "x_hub_signature_256": f"sha256={digest}"}
    return await api.caller(None).send("POST", f"git-sources/{source}/events", body, **headers)


def pull_request(commit: str, *, is_open: bool = True, after_s: int = 0, repository: str = "team/shop") -> Any:
    changed = datetime.now(UTC) + timedelta(seconds=after_s)
    found = {
        "state": "open" if is_open else "closed",
        "updated_at": changed.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "head": {"ref": "feature", "sha": commit, "repo": {"full_name": repository}},
        "base": {"ref": "main", "repo": {"full_name": "team/shop"}},
    }
    return {"number": 7, "pull_request": found}


@pytest.mark.slow
async def test_an_event_counts_if_it_is_signed_and_only_once(
    follower: Follower, repository: Repository, vault: str
) -> None:
    api = follower.api
    first = repository.commit({"manifest.yaml": MANIFEST % "one"})
    body = {"applicationId": await api.application(), "path": "manifest.yaml", "vault": vault}
    source = await follower.make(repository.directory.stem, **body, forge="github", webhookSecret="events")
    assert (await follower.outcome(source))["commit"] == first
    push = {"ref": "refs/heads/main", "after": "a" * 40}
    refused(await send(api, source, "push", push, secret="another secret"), 401, "NotAuthenticated")
    refused(await send(api, "5f" * 12, "push", push), 404, "NotFound")
    refused(await send(api, source, "push", None, body=b"no JSON"), 400, "MalformedBody")
    refused(await send(api, source, "push", None, body=b"x" * (2 * 1024 * 1024 + 1)), 413)
    silent = await follower.make(repository.directory.stem, **{**body, "paused": True})
    refused(await send(api, silent, "push", push), 401)

    second = repository.commit({"manifest.yaml": MANIFEST % "two"})
    accepted(await send(api, source, "push", {**push, "ref": "refs/heads/other"}))
    accepted(await send(api, source, "push", push))
    assert (await follower.outcome(source, 2))["commit"] == second
    looked = (await follower.read(source))["lookedAt"]
    accepted(await send(api, source, "push", push))
    assert (await follower.read(source))["nextAt"] is None
    assert (await follower.read(source))["lookedAt"] == looked


@pytest.mark.slow
async def test_an_event_that_gitlab_signs_with_its_signing_token_counts(
    follower: Follower, repository: Repository, vault: str
) -> None:
    api, key = follower.api, b"a key of twenty-four byte"
    await told(api, vault, "set-secret", name="signing", value=f"whsec_{base64.b64encode(key).decode()}")
    repository.commit({"manifest.yaml": MANIFEST % "one"})
    body = {"applicationId": await api.application(), "path": "manifest.yaml", "vault": vault}
    source = await follower.make(repository.directory.stem, **body, forge="gitlab", webhookSecret="signing")
    await follower.outcome(source)
    second = repository.commit({"manifest.yaml": MANIFEST % "two"})
    push = json.dumps({"ref": "refs/heads/main", "after": "a" * 40}).encode()

    async def sent(by: bytes) -> Any:
        signature = base64.b64encode(hmac.new(by, b"1.1714816800." + push, hashlib.sha256).digest()).decode()
        headers = {
            "content_type": "application/json",
            "x_gitlab_event": "Push Hook",
            "webhook_id": "1",
            "webhook_timestamp": "1714816800",
            "webhook_signature": f"v1,{signature}",
        }
        return await api.caller(None).send("POST", f"git-sources/{source}/events", push, **headers)

    refused(await sent(b"another key"), 401, "NotAuthenticated")
    accepted(await sent(key))
    assert (await follower.outcome(source, 2))["commit"] == second


async def test_parameters_of_previews_are_sealed_and_secrets_are_not_shown(follower: Follower, vault: str) -> None:
    api, password = follower.api, "hunter2 of previews"
    previews = {"environmentId": api.environment, "lifetimeMs": 1, "parameters": {"password": password, "size": 1}}
    body = {
        "name": fresh_name("source"),
        "accountId": follower.account,
        "url": "https://git.example.org/x.git",
        "applicationId": await api.application(),
        "path": "manifest.yaml",
        "vault": vault,
        "forge": "github",
        "webhookSecret": "events",
        "paused": True,
        "previews": previews,
    }
    made = accepted(await api.post(f"organizations/{api.organization}/git-sources", body))
    assert made["previews"]["parameters"] == {"password": "********", "size": 1}
    assert password not in await everything_stored(api)

    again = {**previews, "parameters": {**made["previews"]["parameters"], "size": 2}}
    accepted(await api.put(f"git-sources/{made['id']}", {**body, "previews": again}))
    assert (await follower.read(made["id"]))["previews"]["parameters"] == {"password": "********", "size": 2}
    assert await kept_parameters(api, made["id"]) == {"password": password, "size": 2}
    assert password not in (await api.get(f"organizations/{api.organization}/audit")).text

    # An older server left them in the clear.
    older = {"environmentId": api.environment, "lifetimeMs": 1, "parameters": {"password": password}}
    settings = {"url": body["url"], "previews": older}
    async with api.database.transaction() as connection:
        statement = "UPDATE git_sources SET settings = %s, sealed_parameters = NULL WHERE id = %s"
        await connection.execute(statement, [json.dumps(settings), made["id"]])
    await seal_parameters(api.database, read_secret_key(api.settings.key_file()))
    assert password not in await everything_stored(api)
    assert await kept_parameters(api, made["id"]) == {"password": password}


async def kept_parameters(api: Api, source: str) -> Any:
    """Return the parameters that previews of a source get."""
    async with api.database.connection() as connection:
        cursor = await connection.execute("SELECT sealed_parameters FROM git_sources WHERE id = %s", [source])
        [(sealed,)] = await cursor.fetchall()
    opened = read_secret_key(api.settings.key_file()).open(bytes(sealed), parameters_purpose(source))
    return json.loads(opened)


@pytest.mark.slow
async def test_outcomes_are_shown_at_their_commits(
    follower: Follower, repository: Repository, vault: str, forge: LoopbackServer
) -> None:
    api = follower.api
    first = repository.commit({"manifest.yaml": MANIFEST % "one"})
    path = f"/repos/{repository.directory.stem}/statuses/{first}"
    forge.routes[path] = answer(500)
    application = await api.application()
    body = {"applicationId": application, "path": "manifest.yaml", "vault": vault, "forge": "github"}
    source = await follower.make(repository.directory.stem, **body, statusToken="statuses", api=forge.url(""))
    await follower.outcome(source)
    await eventually(lambda: api.read(f"git-sources/{source}/syncs"), lambda found: found[0]["reportProblem"])
    forge.routes[path] = answer(201)
    await eventually(lambda: api.read(f"git-sources/{source}/syncs"), lambda found: not found[0]["reportProblem"])
    status = forge.received[-1]
    assert (status.method, status.headers["authorization"]) == ("POST", f"Bearer {TOKEN}")
    assert json.loads(status.body) == {
        "state": "success",
        "context": "launchbay",
        "description": "Applied: 1 change.",
        "target_url": f"http://launchbay/console/organizations/{api.organization}/git-sources/{source}",
    }
    broken = repository.commit({"manifest.yaml": "launch: 1\n"})
    forge.routes[f"/repos/{repository.directory.stem}/statuses/{broken}"] = answer(201)
    await follower.sync(source)
    await eventually(lambda: forge.received[-1].target.endswith(broken))
    assert json.loads(forge.received[-1].body)["state"] == "failure"


@pytest.mark.slow  # two commits, fetched from a real server
async def test_a_commit_waits_until_its_change_set_is_applied(
    follower: Follower, repository: Repository, vault: str, forge: LoopbackServer
) -> None:
    api = follower.api
    commit = repository.commit({"environments/awaited.yaml": "markers: [blue]\n"})
    path = f"/repos/{repository.directory.stem}/statuses/{commit}"
    forge.routes[path] = answer(201)
    body = {"applies": "change-set", "vault": vault, "forge": "github", "api": forge.url("")}
    source = await follower.make(repository.directory.stem, **body, statusToken="statuses")
    [change_set] = (await follower.outcome(source))["changeSetIds"]

    def statuses() -> list[tuple[str, str]]:
        documents = [json.loads(each.body) for each in forge.received if each.target == path]
        return [(each["state"], each["description"]) for each in documents]

    await eventually(statuses)
    assert statuses() == [("pending", "Planned: 2 changes wait for approval.")]
    accepted(await api.post(f"change-sets/{change_set}/apply"))
    await eventually(lambda: len(statuses()) >= 2)
    assert statuses()[1] == ("success", "Applied: 2 changes.")


@pytest.mark.slow
async def test_a_pull_request_has_a_preview_until_it_is_closed(
    follower: Follower, repository: Repository, vault: str
) -> None:
    api = follower.api
    repository.commit({"manifest.yaml": MANIFEST % "main"})
    first = repository.commit({"manifest.yaml": MANIFEST % "first"}, branch="feature")
    application = await api.application()
    body = {
        "applicationId": application,
        "path": "manifest.yaml",
        "vault": vault,
        "forge": "github",
        "webhookSecret": "events",
        "previews": {"environmentId": api.environment, "lifetimeMs": 3_600_000, "parameters": {"size": 3}},
    }
    source = await follower.make(repository.directory.stem, **body)
    await follower.outcome(source)
    accepted(await send(api, source, "pull_request", pull_request(first, repository="stranger/shop")))
    old = pull_request(first, after_s=-30 * 86_400)
    accepted(await send(api, source, "pull_request", old))
    assert accepted(await api.get(f"git-sources/{source}/previews")) == []

    opened = pull_request(first)
    accepted(await send(api, source, "pull_request", opened))
    preview = await shown(api, source, first)
    assert preview["applicationId"] != application
    document = await api.settled(preview["instanceId"])
    assert (document["status"], document["environmentId"]) == ("Running", api.environment)
    assert "first" in str(document["returnValues"])
    assert document["parameters"]["size"] == 3
    assert document["destroyAt"] is not None
    [_, outcome] = sorted(accepted(await api.get(f"git-sources/{source}/syncs")), key=lambda each: each["id"])
    assert (outcome["pullRequest"], outcome["instanceId"]) == (7, preview["instanceId"])

    second = repository.commit({"manifest.yaml": MANIFEST % "second"}, branch="feature")
    accepted(await send(api, source, "pull_request", pull_request(second, after_s=5)))
    assert (await shown(api, source, second))["instanceId"] == preview["instanceId"]
    assert (await api.settled(preview["instanceId"]))["version"] == 3

    accepted(await send(api, source, "pull_request", pull_request(second, is_open=False, after_s=10)))
    await eventually(
        lambda: api.get(f"applications/{preview['applicationId']}"), lambda found: found.status_code != 200
    )
    refused(await api.get(f"instances/{preview['instanceId']}"), 404)
    # A copy of an earlier event doesn't bring it back.
    accepted(await send(api, source, "pull_request", opened))
    accepted(await send(api, source, "pull_request", {**opened, "action": "another digest"}))
    [found] = accepted(await api.get(f"git-sources/{source}/previews"))
    assert (found["open"], found["instanceId"], found["applicationId"]) == (False, None, None)


async def previewed(follower: Follower, repository: Repository, vault: str, **more: Any) -> tuple[str, Any]:
    """Return a source with the preview of a pull request."""
    api = follower.api
    repository.commit({"manifest.yaml": MANIFEST % "main"})
    first = repository.commit({"manifest.yaml": MANIFEST % "first"}, branch="feature")
    body = {
        "applicationId": await api.application(),
        "path": "manifest.yaml",
        "vault": vault,
        "forge": "github",
        "webhookSecret": "events",
        "previews": {"environmentId": api.environment, "lifetimeMs": 3_600_000},
    }
    source = await follower.make(repository.directory.stem, **body, **more)
    accepted(await send(api, source, "pull_request", pull_request(first)))
    preview = await shown(api, source, first)
    await api.settled(preview["instanceId"])
    return source, preview


async def until_gone(api: Api, preview: Any) -> None:
    await eventually(
        lambda: api.get(f"applications/{preview['applicationId']}"), lambda found: found.status_code != 200
    )
    refused(await api.get(f"instances/{preview['instanceId']}"), 404)


@pytest.mark.slow  # the end of an instance is looked for every 2 s
@pytest.mark.parametrize("said_by", ["the branch", "the forge"])
async def test_a_pull_request_that_was_closed_while_no_server_ran_loses_its_preview(
    follower: Follower, repository: Repository, vault: str, forge: LoopbackServer, said_by: str
) -> None:
    api, path = follower.api, f"/repos/{repository.directory.stem}/pulls/7"
    more = {} if said_by == "the branch" else {"api": forge.url(""), "statusToken": "statuses"}
    source, preview = await previewed(follower, repository, vault, **more)

    # A commit whose event was lost.
    forge.routes[path] = answer(body=b'{"state": "open"}')
    second = repository.commit({"manifest.yaml": MANIFEST % "second"}, branch="feature")
    await hour_later(api, source)
    assert (await shown(api, source, second))["instanceId"] == preview["instanceId"]
    await api.settled(preview["instanceId"])

    forge.routes[path] = answer(body=b'{"state": "closed"}')
    if said_by == "the branch":
        repository.delete_branch("feature")
    else:
        assert {each.headers["authorization"] for each in forge.received} == {f"Bearer {TOKEN}"}
    await hour_later(api, source)
    await until_gone(api, preview)


async def hour_later(api: Api, source: str) -> None:
    """Let the next look at the pull requests be due."""
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE git_previews SET check_at = now() WHERE source_id = %s", [source])


@pytest.mark.slow  # the same
async def test_a_preview_that_fails_for_long_is_given_up_until_somebody_asks(
    follower: Follower, repository: Repository, vault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forges, "_ATTEMPTS", 3)
    monkeypatch.setattr(forges, "AGAIN", Backoff(0.01, 0.01))
    api, own = follower.api, await account(follower.api, "Administrator")
    source, preview = await previewed(follower, repository, vault, accountId=own)
    path = f"organizations/{api.organization}/serviceAccounts/{own}"
    accepted(await api.put(path, {"enabled": False}))
    async with api.database.transaction() as connection:
        await connection.execute(
            "UPDATE git_previews SET is_open = false, due_at = now() WHERE source_id = %s", [source]
        )
    previews = f"git-sources/{source}/previews"
    [found] = await eventually(lambda: api.read(previews), lambda found: "Given up" in (found[0]["problem"] or ""))
    assert found["problem"].startswith("Given up after 3 attempts; sync the source to try again. The service account")
    async with api.database.connection() as connection:
        cursor = await connection.execute("SELECT due_at FROM git_previews WHERE source_id = %s", [source])
        assert await cursor.fetchall() == [(None,)]
    accepted(await api.put(path, {"enabled": True}))
    accepted(await api.post(f"git-sources/{source}/sync"))
    await until_gone(api, preview)


async def test_a_status_that_can_not_be_told_is_given_up(
    follower: Follower, repository: Repository, vault: str, forge: LoopbackServer
) -> None:
    api, commit = follower.api, repository.commit({"manifest.yaml": MANIFEST % "one"})
    forge.routes[f"/repos/{repository.directory.stem}/statuses/{commit}"] = answer(201)
    body = {"applicationId": await api.application(), "path": "manifest.yaml", "vault": vault, "forge": "github"}
    source = await follower.make(repository.directory.stem, **body, statusToken="statuses", api=forge.url(""))
    await follower.outcome(source)
    ours = f"FROM git_syncs WHERE source_id = '{source}'"
    await until(api.database, f"SELECT bool_and(report_at IS NULL) {ours}")
    async with api.database.transaction() as connection:
        await connection.execute(
            "UPDATE git_syncs SET changes = 'no JSON', report_at = now(), report_attempts = 7 WHERE source_id = %s",
            [source],
        )
    await until(api.database, f"SELECT bool_and(report_problem IS NOT NULL) {ours}")
    told = f"Internal error in Launchbay. Find the status of the Git source {source} in the server's log and report it."
    outcome = await ask(api.database, f"SELECT report_at, report_problem {ours}")
    assert outcome == (None, f"Given up after 8 attempts. {told}")


async def shown(api: Api, source: str, commit: str) -> Any:
    """Wait until the only preview has a commit, and return it."""
    [found] = await eventually(
        lambda: api.read(f"git-sources/{source}/previews"),
        lambda found: found and (found[0]["applied"] == commit or found[0]["problem"]),
    )
    assert found["problem"] is None, found
    return found
