"""Sources in Git over HTTP: the real engine follows repositories of a real `git http-backend` (docs/howto/git.md)."""

import asyncio
import re
import shlex
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import click
import pytest

from launchbay import limits
from launchbay.cli.inputs import parse_duration_ms
from launchbay.cli.main import main as cli
from tests.support.databases import Databases
from tests.support.documentation import DOCS
from tests.support.eventually import eventually
from tests.support.external_services import made_certificate
from tests.support.git_server import Follower, GitServer, Repository, account, needs_git, ssh_server, symbolic_link
from tests.support.machines import needs_sshd
from tests.support.network import Received, loopback_server
from tests.support.service import EMAIL, Api, accepted, fresh_name, refused, running_api
from tests.support.services import made_vault, told

pytestmark = needs_git
EVERYTHING = ["Administrator"]
MANIFEST = "launch:\n  steps: []\n  return: {said: {value: '%s'}}\ndestroy: {steps: []}\n"


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url, outgoing_allow="127.0.0.1, http://trusted.example.org", server_programs="git") as api:
        yield api
    databases.drop(url)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with GitServer(tmp_path_factory.mktemp("repositories")) as server:
        yield server


@pytest.fixture(scope="module")
async def follower(api: Api, server: GitServer) -> Follower:
    return Follower(api, server, await account(api, *EVERYTHING))


@pytest.fixture
def repository(server: GitServer, request: pytest.FixtureRequest) -> Repository:
    return server.repository(request.node.name)


def name_of(repository: Repository) -> str:
    return repository.directory.stem


DIRECTORY = {
    "README.md": "Not read: it is outside of the path.",
    "deploy/environments/lab.yaml": "markers: [blue]\n",
    "deploy/roles/Tester.yaml": "- Read: [/*]\n",
    "deploy/applications/web/manifest.yaml": MANIFEST % "one",
    "deploy/applications/web/revisions/stable/revision.yaml": "environment: lab\n",
}


@pytest.mark.slow
async def test_a_directory_follows_a_branch(follower: Follower, repository: Repository) -> None:
    api, commit = follower.api, repository.commit(DIRECTORY)
    source = await follower.make(name_of(repository), path="/deploy/")
    outcome = await follower.outcome(source)
    assert (outcome["status"], outcome["commit"], outcome["message"]) == ("Applied", commit, None)
    assert [f"{each['sign']} {each['what']}" for each in outcome["changes"]] == [
        "+ role Tester",
        "+ environment lab",
        "+ markers of environment lab",
        "+ application web",
        "+ manifest of application web",
        "+ revision web/stable",
    ]
    found = await follower.read(source)
    assert (found["status"], found["applied"], found["seen"], found["problem"]) == ("Current", commit, commit, None)
    names = [each["name"] for each in accepted(await api.get(f"organizations/{api.organization}/environments"))]
    assert "lab" in names

    second = repository.commit({**DIRECTORY, "deploy/applications/web/manifest.yaml": MANIFEST % "two"})
    outcome = await follower.sync(source)
    assert (outcome["status"], outcome["commit"]) == ("Applied", second)
    assert [each["what"] for each in outcome["changes"]] == ["manifest of application web", "revision web/stable"]

    drift = accepted(await api.get(f"git-sources/{source}/drift"))
    assert drift == {"commit": second, "changes": []}
    lab = next(
        each["id"]
        for each in accepted(await api.get(f"organizations/{api.organization}/environments"))
        if each["name"] == "lab"
    )
    accepted(await api.put(f"environments/{lab}/markers", {"markers": [{"name": "red"}]}))
    drift = accepted(await api.get(f"git-sources/{source}/drift"))
    assert [each["what"] for each in drift["changes"]] == ["markers of environment lab"]
    assert [each["what"] for each in (await follower.sync(source))["changes"]] == ["markers of environment lab"]
    assert accepted(await api.get(f"environments/{lab}/markers")) == {"markers": [{"name": "blue"}]}


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["policy", "freeze"])
async def test_a_commit_changes_no_environment_whose_rules_refuse_it(
    follower: Follower, repository: Repository, rule: str
) -> None:
    api, name = follower.api, f"ruled-{rule}"
    made = accepted(await api.post(f"organizations/{api.organization}/environments", {"name": name}))["id"]
    if rule == "policy":
        accepted(await api.put(f"environments/{made}/changePolicy", {"approvals": 1}))
    else:
        accepted(await api.put(f"environments/{made}/freeze", {"reason": "Incident 4711"}))
    repository.commit({f"environments/{name}.yaml": "markers: [blue]\n"})
    source = await follower.make(name_of(repository))
    outcome = await follower.outcome(source)
    said = "asks for a change set with 1 approval." if rule == "policy" else "Incident 4711"
    status = "Refused" if rule == "policy" else "Failed"  # a freeze ends: it is tried again
    assert (outcome["status"], said in outcome["message"]) == (status, True)
    assert accepted(await api.get(f"environments/{made}/markers"))["markers"] == []


@pytest.mark.slow
async def test_a_commit_with_one_refused_change_changes_nothing(follower: Follower, repository: Repository) -> None:
    broken = {
        "environments/half.yaml": "markers: [blue]\n",
        "applications/half/manifest.yaml": MANIFEST % "one",
        "applications/half/revisions/a good one/revision.yaml": "{}\n",
        "applications/half/revisions/bad/revision.yaml": "submodules: {inner: {revision: half/none}}\n",
    }
    repository.commit(broken)
    source = await follower.make(name_of(repository))
    outcome = await follower.outcome(source)
    assert outcome["status"] == "Refused"
    assert "Unknown revision 'half/none'" in outcome["message"]
    found = await follower.read(source)
    assert (found["status"], found["applied"]) == ("Failing", None)
    organization = f"organizations/{follower.api.organization}"
    for kind in ("applications", "environments"):
        names = [each["name"] for each in accepted(await follower.api.get(f"{organization}/{kind}"))]
        assert "half" not in names
    # A version that was taken back leaves nothing behind: the next one with its number is read anew.
    repaired = {**broken, "applications/half/revisions/bad/revision.yaml": "{}\n"}
    repository.commit({**repaired, "applications/half/manifest.yaml": MANIFEST % "two"})
    assert (await follower.sync(source))["status"] == "Applied"
    assert (await follower.read(source))["status"] == "Current"
    applications = accepted(await follower.api.get(f"{organization}/applications"))
    half = next(each["id"] for each in applications if each["name"] == "half")
    launched = await follower.api.settled(await follower.api.launch(half))
    assert "two" in str(launched["returnValues"])


@pytest.mark.slow
async def test_a_commit_gives_no_rights_beyond_those_of_the_account(
    api: Api, server: GitServer, repository: Repository
) -> None:
    role = {"name": fresh_name("role"), "permissions": "- Read: [/*]\n- ManageRoles: [/*]\n"}
    accepted(await api.post(f"organizations/{api.organization}/roles", role))
    bounded = Follower(api, server, await account(api, role["name"]))
    name = fresh_name("written").replace(" ", "-")
    repository.commit({f"roles/{name}.yaml": "- Read: [/*]\n- EditService: [/*]\n"})
    source = await bounded.make(name_of(repository))
    outcome = await bounded.outcome(source)
    assert (outcome["status"], "you lack EditService: [/*]" in outcome["message"]) == ("Refused", True)
    commit = repository.commit({f"roles/{name}.yaml": "- Read: [/*]\n"})
    outcome = await bounded.sync(source)
    assert (outcome["status"], outcome["commit"]) == ("Applied", commit)


async def test_a_credential_goes_over_plain_http_only_if_an_administrator_allows_the_host(api: Api) -> None:
    vault = await made_vault(api, offered_by=api.environment)
    await told(api, vault, "set-secret", name="token", value="a-token")
    organization = f"organizations/{api.organization}"
    body = {"accountId": await account(api, *EVERYTHING), "vault": vault, "paused": True}
    plain, private = "http://git.example.org/x.git", "https://git.example.org/x.git"
    forge = {"forge": "gitea", "statusToken": "token", "api": "http://git.example.org/api"}
    for refused_body, problem in (
        ({"url": plain, "credential": "token"}, "url: the credential would go to git.example.org over plain HTTP"),
        ({"url": private, **forge}, "api: the token would go to git.example.org over plain HTTP"),
    ):
        answer = await api.post(f"{organization}/git-sources", {**body, "name": fresh_name("x"), **refused_body})
        assert problem in refused(answer, 400, "InvalidGitSource")
    trusted = plain.replace("git.", "trusted.", 1)
    for good in ({"url": plain}, *({"url": each, "credential": "token"} for each in (private, trusted))):
        accepted(await api.post(f"{organization}/git-sources", {**body, "name": fresh_name("source"), **good}))


@pytest.mark.slow
async def test_an_approval_outlasts_a_look_that_fails(follower: Follower, repository: Repository) -> None:
    name = name_of(repository)
    commit = repository.commit({f"environments/{name}.yaml": "markers: [blue]\n"})
    source = await follower.make(name, applies="after-approval")
    assert (await follower.outcome(source))["status"] == "Planned"
    away = repository.directory.rename(repository.directory.with_suffix(".away"))
    accepted(await follower.api.post(f"git-sources/{source}/apply", {"commit": commit}))
    assert (await follower.outcome(source, 2))["status"] == "Failed"
    away.rename(repository.directory)
    assert (await follower.sync(source))["status"] == "Applied"


@pytest.mark.slow
async def test_the_manifest_of_an_application_follows_a_file(follower: Follower, repository: Repository) -> None:
    api = follower.api
    application = await api.application()
    commit = repository.commit({"ci/manifest.yaml": MANIFEST % "from Git", "other.yaml": "no manifest"})
    source = await follower.make(name_of(repository), applicationId=application, path="ci/manifest.yaml")
    outcome = await follower.outcome(source)
    assert (outcome["status"], outcome["commit"]) == ("Applied", commit)
    assert (await api.get(f"applications/{application}/manifest")).text == MANIFEST % "from Git"
    [listed] = accepted(await api.get(f"organizations/{api.organization}/git-sources?application={application}"))
    assert (listed["id"], listed["applicationId"]) == (source, application)

    repository.commit({"ci/manifest.yaml": "launch: 1\n"})
    outcome = await follower.sync(source)
    assert outcome["status"] == "Refused"
    assert "line 1" in outcome["message"]
    accepted(await api.delete(f"git-sources/{source}"))
    refused(await api.get(f"git-sources/{source}"), 404)


@pytest.mark.slow
async def test_a_branch_is_looked_at_again_after_the_interval(follower: Follower, repository: Repository) -> None:
    application = await follower.api.application()
    repository.commit({"manifest.yaml": MANIFEST % "one"})
    body = {"applicationId": application, "path": "manifest.yaml", "intervalMs": 3_600_000}
    source = await follower.make(name_of(repository), **body)
    await follower.outcome(source)
    looked = (await follower.read(source))["lookedAt"]
    assert (await follower.read(source))["nextAt"] >= looked + 3_590_000
    fetched = len(follower.server.requests)
    await due(follower.api, source)
    await eventually(lambda: follower.read(source), lambda found: found["lookedAt"] != looked)
    # The same commit is seen by listing the branch alone.
    assert [path for path in follower.server.requests[fetched:] if "git-upload-pack" not in path] == []
    assert len(accepted(await follower.api.get(f"git-sources/{source}/syncs"))) == 1
    second = repository.commit({"manifest.yaml": MANIFEST % "two"})
    await due(follower.api, source)
    assert (await follower.outcome(source, 2))["commit"] == second


async def due(api: Api, source: str) -> None:
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE git_sources SET due_at = now() WHERE id = %s", [source])


@pytest.mark.slow
async def test_a_plan_waits_for_approval_and_must_be_the_same_then(follower: Follower, repository: Repository) -> None:
    api = follower.api
    first = repository.commit({"environments/planned.yaml": "markers: [blue]\n"})
    source = await follower.make(name_of(repository), applies="after-approval")
    outcome = await follower.outcome(source)
    assert (outcome["status"], outcome["commit"]) == ("Planned", first)
    found = await follower.read(source)
    assert (found["status"], found["planned"], found["applied"]) == ("Planned", first, None)
    refused(await api.post(f"git-sources/{source}/apply", {"commit": "0" * 40}), 409, "NotPlanned")

    environment = accepted(await api.post(f"organizations/{api.organization}/environments", {"name": "planned"}))["id"]
    accepted(await api.post(f"git-sources/{source}/apply", {"commit": first}))
    outcome = await follower.outcome(source, 2)
    assert outcome["status"] == "Refused"
    assert "has changed since the plan was shown" in outcome["message"]
    assert accepted(await api.get(f"environments/{environment}/markers")) == {"markers": []}

    assert (await follower.sync(source))["status"] == "Planned"
    accepted(await api.post(f"git-sources/{source}/apply", {"commit": first}))
    assert (await follower.outcome(source, 4))["status"] == "Applied"
    assert accepted(await api.get(f"environments/{environment}/markers")) == {"markers": [{"name": "blue"}]}


@pytest.mark.slow  # three commits, each fetched from a real server
async def test_commits_of_a_directory_become_change_sets_and_a_newer_one_replaces_an_older_one(
    follower: Follower, repository: Repository
) -> None:
    api = follower.api
    first = repository.commit({"environments/kept.yaml": "markers: [blue]\n"})
    source = await follower.make(name_of(repository), applies="change-set")
    outcome = await follower.outcome(source)
    assert (outcome["status"], outcome["commit"]) == ("Planned", first)
    assert [each["what"] for each in outcome["changes"]] == ["environment kept", "markers of environment kept"]
    [older] = outcome["changeSetIds"]
    shown = accepted(await api.get(f"change-sets/{older}"))
    assert (shown["status"], shown["commit"], shown["ownerId"]) == ("Ready", first, follower.account)
    refused(await api.post(f"git-sources/{source}/apply", {"commit": first}), 409, "NotPlanned")
    refused(await api.get(f"git-sources/{source}/drift"), 409, "NotApplied")

    second = repository.commit({"environments/kept.yaml": "markers: [green]\n"})
    outcome = await follower.sync(source)
    assert (outcome["status"], outcome["commit"]) == ("Planned", second)
    [newer] = outcome["changeSetIds"]
    replaced = accepted(await api.get(f"change-sets/{older}"))
    assert (replaced["status"], replaced["comment"].splitlines()[-1]) == (
        "Expired",
        f"Superseded by the commit {second}.",
    )
    refused(await api.post(f"change-sets/{older}/apply"), 409, "ChangeSetEnded")

    accepted(await api.post(f"change-sets/{newer}/apply"))
    found = await follower.read(source)
    assert (found["status"], found["applied"], found["planned"]) == ("Current", second, None)
    outcome = await follower.outcome(source, 3)
    assert (outcome["status"], outcome["commit"], outcome["changeSetIds"]) == ("Applied", second, [newer])
    assert accepted(await api.get(f"git-sources/{source}/drift")) == {"commit": second, "changes": []}
    environments = accepted(await api.get(f"organizations/{api.organization}/environments"))
    kept = next(each["id"] for each in environments if each["name"] == "kept")
    assert accepted(await api.get(f"environments/{kept}/markers")) == {"markers": [{"name": "green"}]}
    accepted(await api.put(f"environments/{kept}/markers", {"markers": []}))
    drift = accepted(await api.get(f"git-sources/{source}/drift"))
    assert [each["what"] for each in drift["changes"]] == ["markers of environment kept"]


@pytest.mark.slow
@pytest.mark.parametrize(("instances", "applied"), [("change-set", False), ("at-once", True)])
async def test_instances_get_a_change_set_or_follow(
    follower: Follower, server: GitServer, instances: str, applied: bool
) -> None:
    api = follower.api
    repository = server.repository(f"instances-{instances}")
    repository.commit({"manifest.yaml": MANIFEST % "one"})
    application = await api.application()
    body = {"applicationId": application, "path": "manifest.yaml", "instances": instances}
    source = await follower.make(f"instances-{instances}", **body)
    await follower.outcome(source)
    instance = await api.launch(application)
    await api.settled(instance)
    repository.commit({"manifest.yaml": MANIFEST % "two"})
    outcome = await follower.sync(source)
    [change_set] = outcome["changeSetIds"]
    found = accepted(await api.get(f"change-sets/{change_set}"))
    assert [each["instanceId"] for each in found["plan"]] == [instance]
    assert (found["status"] == "Ready") is not applied
    if not applied:
        accepted(await api.post(f"change-sets/{change_set}/apply"))
    document = await eventually(lambda: api.settled(instance), lambda document: document["version"] == 3)
    assert document["status"] == "Running"


@pytest.mark.slow
async def test_too_many_change_sets_do_not_undo_a_commit(
    follower: Follower, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = follower.api
    repository.commit({"manifest.yaml": MANIFEST % "one"})
    application = await api.application()
    body = {"applicationId": application, "path": "manifest.yaml", "instances": "at-once"}
    source = await follower.make(name_of(repository), **body)
    await follower.outcome(source)
    await api.settled(await api.launch(application))
    monkeypatch.setattr(limits, "CHANGE_SETS_OPEN", 0)
    commit = repository.commit({"manifest.yaml": MANIFEST % "two"})
    outcome = await follower.sync(source)
    assert (outcome["status"], outcome["commit"], outcome["changeSetIds"]) == ("Applied", commit, [])
    assert "stay as they are: The organization has 0 open change sets." in outcome["message"]
    assert "two" in (await api.get(f"applications/{application}/manifest")).text


@pytest.mark.slow
async def test_a_source_never_does_more_than_its_account_may(
    api: Api, server: GitServer, repository: Repository
) -> None:
    role = {"name": fresh_name("role"), "permissions": "- Read: [/*]\n- CreateEnvironment: [/*]\n"}
    accepted(await api.post(f"organizations/{api.organization}/roles", role))
    follower = Follower(api, server, await account(api, role["name"]))
    repository.commit({"environments/allowed.yaml": "{}\n", "applications/denied/manifest.yaml": MANIFEST % "one"})
    outcome = await follower.outcome(await follower.make(name_of(repository)))
    assert outcome["status"] == "Refused"
    assert "CreateApplication" in outcome["message"]
    names = [each["name"] for each in accepted(await api.get(f"organizations/{api.organization}/environments"))]
    assert "allowed" not in names


async def test_who_may_not_act_as_the_account_makes_no_source(follower: Follower, repository: Repository) -> None:
    api = follower.api
    repository.commit(DIRECTORY)
    source = await follower.make(name_of(repository), paused=True)
    assert (await follower.read(source))["status"] == "Paused"
    refused(await api.post(f"git-sources/{source}/sync"), 409, "GitSourcePaused")
    body = {"name": "mine", "accountId": follower.account, "url": follower.server.url("x")}
    reader = await api.member("Read: [/*]")
    accepted(await reader.get(f"git-sources/{source}"))
    refused(await reader.post(f"organizations/{api.organization}/git-sources", body), 403)
    for answer in (
        await reader.post(f"git-sources/{source}/sync"),
        await reader.put(f"git-sources/{source}", body),
        await reader.delete(f"git-sources/{source}"),
    ):
        refused(answer, 403)
    stranger, organization, _ = await api.outsider()
    refused(await stranger.get(f"git-sources/{source}"), 403)
    refused(await stranger.post(f"organizations/{organization}/git-sources", body), 400, "UnknownId")
    [me] = [row for row in accepted(await api.get(f"organizations/{api.organization}/users")) if row["email"] == EMAIL]
    person = {**body, "accountId": me["id"]}
    refused(await api.post(f"organizations/{api.organization}/git-sources", person), 400, "UnknownId")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"url": "file:///etc"}, "InvalidGitSource"),
        ({"url": "ext::sh -c touch% /tmp/x"}, "InvalidGitSource"),
        ({"url": "git://example.org/x"}, "InvalidGitSource"),
        ({"url": "https://user:password@example.org/x"}, "CredentialsInUrl"),
        ({"url": "ssh://-oProxyCommand=x/y"}, "InvalidGitSource"),
        ({"url": "ssh://git@example.org/x"}, "InvalidGitSource"),
        ({"branch": "--upload-pack=sh"}, "InvalidGitSource"),
        ({"branch": "a..b"}, "InvalidGitSource"),
        ({"path": "../../etc"}, "InvalidGitSource"),
        ({"hostKeys": ["* ssh-rsa x"]}, "InvalidGitSource"),
        ({"credential": "key"}, "InvalidGitSource"),
        ({"vault": "5f" * 12, "credential": "key"}, "UnknownId"),
        ({"applicationId": "5f" * 12, "path": "manifest.yaml"}, "UnknownId"),
        ({"applicationId": "5f" * 12, "path": "manifest.yaml", "applies": "change-set"}, "InvalidGitSource"),
        ({"instances": "at-once", "applies": "change-set"}, "InvalidGitSource"),
        ({"accountId": "5f" * 12}, "UnknownId"),
    ],
)
async def test_what_can_not_be_a_source_is_refused(follower: Follower, change: dict[str, Any], code: str) -> None:
    body = {"name": fresh_name("bad"), "accountId": follower.account, "url": "https://git.example.org/x.git", **change}
    refused(await follower.api.post(f"organizations/{follower.api.organization}/git-sources", body), 400, code)


@pytest.mark.slow
async def test_hostile_repositories_are_refused(follower: Follower, repository: Repository) -> None:
    cases = (
        ({"environments/a.yaml": "{}\n"}, symbolic_link("environments/b.yaml", "/etc/passwd"), "is a symbolic link"),
        ({"/".join(["deep"] * 40) + "/a.yaml": "{}\n"}, "", "levels deep"),
        ({"environments/big.yaml": b"#" * (2 * 1024 * 1024 + 1)}, "", "more than 2 MiB"),
        ({f"folder {number // 500}/{number}.yaml": "" for number in range(5_001)}, "", "more than 5000 files"),
        ({f"folder {number // 500}/{number}.yaml": "" for number in range(100_000)}, "", "more than 5000 files"),
        ({"environments/a.yaml": "{}\n"}, f"M 160000 {'1' * 40} module\n", "is a submodule"),
        ({"environments/a.yaml": "a: &a [x, x]\nb: &b [*a, *a]\nmarkers: *b\n"}, "", "environments/a.yaml"),
    )
    source = await follower.make(name_of(repository), paused=True)
    body = {
        "name": fresh_name("hostile"),
        "accountId": follower.account,
        "url": follower.server.url(name_of(repository)),
    }
    accepted(await follower.api.put(f"git-sources/{source}", {**body, "paused": False}))
    assert "can't read" in (await follower.outcome(source))["message"] or (await follower.read(source))["problem"]
    for files, more, message in cases:
        repository.commit(files, more=more)
        outcome = await follower.sync(source)
        assert (outcome["status"], message in outcome["message"]) == ("Refused", True), outcome
    repository.commit({"environments/fine.yaml": "{}\n"})
    assert (await follower.sync(source))["status"] == "Applied"


async def test_refusals_say_what_is_wrong_and_what_to_do(follower: Follower, api: Api) -> None:
    path = f"organizations/{api.organization}/git-sources"
    body = {"name": fresh_name("bad"), "accountId": follower.account, "url": "https://git.example.org/x.git"}
    vault = await made_vault(api)
    secretless = {**body, "vault": vault, "credential": "token of nobody"}
    assert "credential: The vault" in refused(await api.post(path, secretless), 400, "NoSecret")
    people = accepted(await api.get(f"organizations/{api.organization}/users"))
    [me] = [each["id"] for each in people if each["email"] == EMAIL]
    told = refused(await api.post(path, {**body, "accountId": me}), 400, "UnknownId")
    assert "A source acts for a service account, not for a person" in told
    told = refused(await api.post(path, {**body, "applies": "later"}), 400, "WrongField")
    assert told == "applies: invalid value 'later'; expected after-approval, at-once or change-set."


@pytest.mark.parametrize(
    ("answered", "given", "advice"),
    [
        ({"status": 401}, False, "name a token or key pair of a vault"),
        ({"status": 401}, True, "The host refuses the credential"),
        ({"status": 302, "headers": {"Location": "http://127.0.0.1:1/y.git"}}, False, "Redirects aren't followed"),
        ({"status": 404}, False, "Check the path."),
    ],
)
async def test_a_host_that_refuses_is_told_with_what_to_do(
    follower: Follower, api: Api, answered: dict[str, Any], given: bool, advice: str
) -> None:
    more: dict[str, Any] = {}
    if given:
        vault = await made_vault(api)
        await told(api, vault, "set-secret", name="token", value="a wrong token")
        more = {"vault": vault, "credential": "token"}
    headers = "".join(f"{name}: {value}\r\n" for name, value in answered.get("headers", {}).items())
    if answered["status"] == 401:
        headers = 'WWW-Authenticate: Basic realm="git"\r\n'

    async def refuse(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {answered['status']} No\r\n{headers}Content-Length: 0\r\n\r\n".encode())

    async with loopback_server() as host:
        host.routes["/x.git/info/refs?service=git-upload-pack"] = refuse
        host.routes["/x.git/info/refs"] = refuse
        body = {"name": fresh_name("bad"), "accountId": follower.account, "url": host.url("/x.git"), **more}
        source = accepted(await api.post(f"organizations/{api.organization}/git-sources", body))["id"]
        assert advice in (await follower.outcome(source))["message"]
        accepted(await api.delete(f"git-sources/{source}"))


@pytest.mark.slow
async def test_a_host_of_a_private_authority_is_trusted_by_the_file_of_the_environment(
    follower: Follower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = made_certificate(tmp_path)
    with GitServer(tmp_path, certificate) as server:
        inside = Follower(follower.api, server, follower.account)
        commit = server.repository("inside").commit(DIRECTORY)
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
        source = await inside.make("inside", path="deploy")
        assert "certificate" in (await inside.outcome(source))["message"]
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        outcome = await inside.sync(source)
        assert (outcome["status"], outcome["commit"]) == ("Applied", commit)


@pytest.mark.slow
async def test_addresses_that_the_rules_forbid_are_not_reached(
    databases: Databases, server: GitServer, repository: Repository
) -> None:
    repository.commit(DIRECTORY)
    url = databases.create()
    async with running_api(url, server_programs="git") as api:
        follower = Follower(api, server, await account(api, *EVERYTHING))
        reached = len(server.requests)
        outcome = await follower.outcome(await follower.make(name_of(repository)))
        assert "The address 127.0.0.1 is refused: it is a loopback address." in outcome["message"]
        assert server.requests[reached:] == []
    databases.drop(url)


@pytest.mark.slow
async def test_a_token_from_a_vault_is_the_password(follower: Follower, tmp_path: Path) -> None:
    api = follower.api
    with GitServer(tmp_path) as server:
        server.repository("closed").commit({"environments/token.yaml": "{}\n"})
        server.set_token("a-token-of-the-forge")
        guarded = Follower(api, server, follower.account)
        source = await guarded.make("closed")
        outcome = await guarded.outcome(source)
        assert outcome["status"] == "Failed"
        vault = await made_vault(api)
        await told(api, vault, "set-secret", name="forge", value="a-token-of-the-forge")
        body = {"name": fresh_name("with a token"), "accountId": guarded.account, "url": server.url("closed")}
        missing = {**body, "vault": vault, "credential": "other"}
        refused(await api.put(f"git-sources/{source}", missing), 400, "NoSecret")
        accepted(await api.put(f"git-sources/{source}", {**body, "vault": vault, "credential": "forge"}))
        assert (await guarded.outcome(source, 2))["status"] == "Applied"
        assert "a-token-of-the-forge" not in (await api.get(f"git-sources/{source}")).text


@needs_sshd
@pytest.mark.slow
async def test_over_ssh_only_the_pinned_host_is_asked_with_a_key_of_a_vault(
    follower: Follower, repository: Repository, tmp_path: Path
) -> None:
    api = follower.api
    commit = repository.commit({"environments/over ssh.yaml": "{}\n"})
    with ssh_server(tmp_path / "sshd") as ssh, ssh_server(tmp_path / "other") as other:
        vault = await made_vault(api)
        await told(api, vault, "import-keypair", name="deploy", privateKey=ssh.private_key)
        body = {"url": ssh.url(repository), "vault": vault, "credential": "deploy"}
        source = await follower.make("-", **body, hostKeys=[other.host_key])
        outcome = await follower.outcome(source)
        assert (outcome["status"], "Host key verification failed" in outcome["message"]) == ("Failed", True), outcome
        named = {"name": fresh_name("ssh"), "accountId": follower.account, **body, "hostKeys": [ssh.host_key]}
        accepted(await api.put(f"git-sources/{source}", named))
        assert (await follower.outcome(source, 2))["commit"] == commit
        assert "PRIVATE KEY" not in (await api.get(f"git-sources/{source}")).text


@pytest.mark.slow
async def test_a_slow_host_holds_up_nobody_else(follower: Follower, repository: Repository, tmp_path: Path) -> None:
    repository.commit({"environments/quick.yaml": "{}\n"})
    with GitServer(tmp_path) as slow:
        slow.repository("slow").commit({"environments/slow.yaml": "{}\n"})
        patient = Follower(follower.api, slow, follower.account)
        with slow.stalled():
            waiting = [await patient.make("slow") for _ in range(3)]
            assert (await follower.outcome(await follower.make(repository.directory.stem)))["status"] == "Applied"
            assert {(await follower.read(source))["status"] for source in waiting} == {"Running"}
        for source in waiting:
            assert (await patient.outcome(source))["status"] == "Applied"


@pytest.mark.slow
async def test_a_source_whose_process_died_is_taken_up_by_another_one(databases: Databases, tmp_path: Path) -> None:
    url = databases.create()
    settings: dict[str, Any] = {"outgoing_allow": "127.0.0.1", "server_programs": "git"}
    with GitServer(tmp_path) as slow:
        slow.repository("slow").commit({"environments/slow.yaml": "{}\n"})
        with slow.stalled():
            async with running_api(url, **settings) as api:
                first = Follower(api, slow, await account(api, *EVERYTHING))
                source = await first.make("slow")
                await eventually(lambda: first.read(source), lambda found: found["status"] == "Running")
            # The process ended in the middle: its lease is all that it leaves.
        async with running_api(url, **settings) as api:
            again = Follower(api, slow, first.account)
            assert (await again.read(source))["status"] == "Running"
            async with api.database.transaction() as connection:
                await connection.execute("UPDATE git_sources SET lease_until = now() WHERE id = %s", [source])
            assert (await again.outcome(source))["status"] == "Applied"
            assert len(accepted(await api.get(f"git-sources/{source}/syncs"))) == 1
    databases.drop(url)


@pytest.mark.slow
async def test_the_how_to_makes_a_source_as_it_says(follower: Follower, repository: Repository) -> None:
    api, page = follower.api, (DOCS / "howto" / "git.md").read_text("utf-8")
    commit = repository.commit({"deploy/environments/how to.yaml": "markers: [blue]\n"})
    [written] = re.findall(r"^\$ launchbay git-source create (.*)$", page, flags=re.MULTILINE)
    body = _body_of(written.replace("$ACCOUNT", follower.account))
    # The page's repository is nowhere; everything else is as written.
    body["url"] = follower.server.url(name_of(repository))
    source = accepted(await api.post(f"organizations/{api.organization}/git-sources", body))["id"]
    assert (await follower.outcome(source))["commit"] == commit
    found = await follower.read(source)
    assert (found["status"], found["intervalMs"], found["path"]) == ("Current", 300_000, "deploy")
    named = set(re.findall(r"^\| `(\w+)`(?:, `(\w+)`)?(?:, `(\w+)`)? \|", page, flags=re.MULTILINE))
    fields = {name for row in named for name in row if name and name[0].islower()}
    assert fields <= set(found), fields - set(found)
    for status in ("Applied", "Planned", "Refused", "Failed"):
        assert f"| `{status}` |" in page


def _body_of(arguments: str) -> dict[str, Any]:
    """Return the fields that `launchbay git-source create` sends for these arguments."""
    context = click.Context(cli)
    group = cli.get_command(context, "git-source")
    assert isinstance(group, click.Group)
    command = group.get_command(context, "create")
    assert command is not None
    given = command.make_context("create", shlex.split(arguments), parent=context).params
    given["interval_ms"] = parse_duration_ms(given["interval_ms"])
    return {re.sub("_(.)", lambda found: found[1].upper(), name): value for name, value in given.items() if value}


@pytest.mark.slow
async def test_a_freeze_delays_a_commit_and_does_not_lose_it(follower: Follower, repository: Repository) -> None:
    api, name = follower.api, "cold-store"
    environment = accepted(await api.post(f"organizations/{api.organization}/environments", {"name": name}))["id"]
    accepted(await api.put(f"environments/{environment}/freeze", {"reason": "An incident."}))
    commit = repository.commit({f"environments/{name}.yaml": "markers: [blue]\n"})
    source = await follower.make(name_of(repository))
    outcome = await follower.outcome(source)
    assert (outcome["status"], "An incident." in outcome["message"]) == ("Failed", True)  # which is tried again
    accepted(await api.delete(f"environments/{environment}/freeze"))
    outcome = await follower.sync(source)
    assert (outcome["status"], outcome["commit"]) == ("Applied", commit)
