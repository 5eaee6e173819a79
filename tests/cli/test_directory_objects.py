"""Services, accounts, Git sources and schedules in a directory: exported, applied elsewhere, and exported again."""

from pathlib import Path

import pytest

from tests.support.directories import exported, new_organization, written
from tests.support.service import GREETER
from tests.support.shell import Shell

pytestmark = pytest.mark.slow  # a real server, many commands

VAULT = "Default credentials service"
FILES = {
    "applications/shop/manifest.yaml": GREETER,
    "applications/shop/revisions/stable/revision.yaml": "parameters: { input.who: 1.10 }\n",
    "environments/lab.yaml": "services: [Hosts, Cloud]\n",
    "roles/Developer.yaml": "- Read: [/*]\n",
    "services/Hosts.yaml": (
        "type: builtin:static_resource_pool\n"
        "parameters: { configuration.resources: { blue: { ip: 10.0.0.1, version: '1.10' }, 'no': { id: 7 } } }\n"
    ),
    "services/Cloud.yaml": (
        "type: builtin:cloud_account\n"
        "parameters:\n"
        "  configuration.provider: aws-ec2\n"
        "  configuration.identity: 12345678e9\n"
        "  configuration.credential: { fromVault: 1.10, vault: Other secrets }\n"
    ),
    "services/Other secrets.yaml": "type: builtin:cobalt_secure_store\n",
    "service-accounts/Deployment.yaml": "description: 1.10\nroles: [Developer, Guest]\n",
    "service-accounts/Idle.yaml": "enabled: false\n",
    "users/ann@example.org.yaml": "name: Ann\nroles: [Developer]\n",
    "git-sources/all.yaml": (
        "account: Deployment\nurl: https://git.example.org/all.git\nbranch: 1.10\npaused: true\n"
        "vault: Hidden\ncredential: 1e3\nintervalMs: 300000\napplies: after-approval\n"
    ),
    "services/Hidden.yaml": "type: builtin:cobalt_secure_store\n",
    "schedules/nightly.yaml": (
        "cron: 0 2 * * MON-FRI\nzone: Europe/Berlin\nwhenBusy: queue\njitterMs: 1000\napplication: shop\n"
        "launch: { revision: shop/stable, environment: lab, parameters: { input.who: 1.10 }, labels: { v: 1.10 } }\n"
    ),
    "schedules/weekly.yaml": (
        "cron: 0 3 * * SUN\npaused: true\nbulk:\n  act: label\n  labels: { team: 1.10, old: null }\n"
        "  select: { applications: [shop], environments: [lab], statuses: [Running], owner: ann@example.org }\n"
        "  maxParallel: 3\n"
    ),
}


SHOP = """\
application:
  interfaces: { input: { token: bind(web#input.token) }, actions: { greet: bind(web#actions.greet) } }
  components:
    web:
      type: workflow.Instance
      interfaces: { input: { token: configuration(string) }, actions: { greet: receive-command() } }
      configuration: { input.token: none, configuration.workflows: { launch: { steps: [] }, greet: { steps: [] } } }
"""


def applied(cli: Shell, directory: Path, *options: str) -> str:
    """Apply a directory that is right, and return what the command says."""
    found = cli.run("apply", str(directory), "--yes", *options)
    assert found.exit_code == 0, found.output
    return found.stdout + found.stderr


def test_a_directory_holds_services_accounts_sources_and_schedules(cli: Shell, tmp_path: Path) -> None:
    new_organization(cli)
    # Who a Git source acts for may use the vault of its credential.
    files = {**FILES, "roles/Developer.yaml": "- Read: [/*]\n- RunServiceCommand: [/services/*]\n"}
    said = applied(cli, written(tmp_path / "given", files))
    for what in (
        "service Hosts",
        "service-account Deployment",
        "user ann@example.org",
        "git-source all",
        "schedule nightly",
    ):
        assert f"+ {what}\n" in said
    assert "Invitation of ann@example.org: http" in said
    assert "No changes." in applied(cli, tmp_path / "given")
    first = exported(cli, tmp_path / "first")
    assert set(files) <= set(first)
    assert first["schedules/nightly.yaml"] == (
        b"cron: 0 2 * * MON-FRI\nzone: Europe/Berlin\nwhenBusy: queue\njitterMs: 1000\napplication: shop\nlaunch:\n"
        b"  parameters:\n    input.who: 1.10\n  labels:\n    v: '1.10'\n  environment: lab\n  revision: shop/stable\n"
    )
    assert b"credential: '1e3'\n" in first["git-sources/all.yaml"]
    assert first["service-accounts/Deployment.yaml"] == b"description: '1.10'\nroles:\n- Developer\n- Guest\n"
    assert b"fromVault: '1.10'\n    vault: Other secrets\n" in first["services/Cloud.yaml"]

    new_organization(cli)
    applied(cli, tmp_path / "first")
    assert exported(cli, tmp_path / "second") == first
    cli.good("organization", "export", str(tmp_path / "archive.json"))
    assert "No changes." in applied(cli, tmp_path / "first", "--prune")

    made = cli.document("organization", "import", str(tmp_path / "archive.json"), "--name", "again")
    assert made["created"] | {"serviceAccounts": 2, "gitSources": 1, "schedules": 2} == made["created"]
    assert made["holes"] == []
    cli.environ["LAUNCHBAY_ORGANIZATION"] = made["id"]
    assert exported(cli, tmp_path / "third") == first


def test_a_reference_that_a_file_leaves_out_is_kept_and_is_no_difference(cli: Shell, tmp_path: Path) -> None:
    new_organization(cli)
    names = ("services/Cloud.yaml", "services/Other secrets.yaml")
    applied(cli, written(tmp_path / "given", {name: FILES[name] for name in names}))
    shorter, mark, _ = FILES["services/Cloud.yaml"].partition("  configuration.credential")
    assert mark
    without = written(tmp_path / "without", {names[0]: shorter, names[1]: FILES[names[1]]})
    assert "No changes." in applied(cli, without)
    assert b"fromVault: '1.10'" in exported(cli, tmp_path / "exported")[names[0]]


def test_an_export_names_what_it_lacks(cli: Shell, tmp_path: Path) -> None:
    new_organization(cli)
    files = {
        "applications/shop/manifest.yaml": SHOP,
        "services/Cloud.yaml": (
            "type: builtin:cloud_account\nparameters: { configuration.provider: ec2, configuration.identity: me,"
            " configuration.endpoint-url: 'https://ec2.example.org' }\n"
        ),
    }
    applied(cli, written(tmp_path / "given", files))
    cloud = next(each for each in cli.document("service", "list") if each["name"] == "Cloud")["id"]
    vault = next(each for each in cli.document("service", "list") if each["name"] == VAULT)["id"]
    cli.good("service", "update", cloud, "-p", "configuration.credential=hush-hush")
    cli.good("service", "run", vault, "set-secret", "name=n", "value=hush-hush")
    cli.good("webhook", "create", "https://hooks.example.org/T0/hush-hush", "--events", "job")
    cli.good("launch", "shop", "--name", "ship", "--wait")
    yearly = ("recurring-schedule", "create", "--cron", "0 0 1 1 *")
    cli.good(*yearly, "of one", "--instance", "ship", "--workflow", "actions.greet")
    cli.good(*yearly, "secretive", "--application", "shop", "--launch", 'parameters:={"input.token": "hush-hush"}')
    cli.good(*yearly, "numbered", "--application", "shop", "--launch", "version:=1")
    result = cli.run("export", str(tmp_path / "out"))
    lines = [line.removeprefix("Not in the directory: ") for line in result.stderr.splitlines()[:-1]]
    assert lines == [
        "schedule 'numbered': all of it, since it names a version of the manifest. Let it launch a revision",
        "schedule 'of one': all of it, since it is for instances, which aren't in a directory",
        "schedule 'secretive': all of it, since it holds a secret",
        "service 'Cloud': the secret parameter 'configuration.credential'",
        "service 'Default credentials service': the secret 'n'",
        "webhook to https://hooks.example.org/… for job: all of it, since address and secret are secrets",
    ]
    assert "hush" not in result.output + "".join(each.read_text() for each in (tmp_path / "out").rglob("*.yaml"))
    # What it lacks stays as it is, also with --prune.
    assert "No changes." in applied(cli, tmp_path / "out", "--prune")
    assert cli.document("service", "show", cloud)["parameters"]["configuration.credential"] == "********"


def test_an_address_in_capitals_is_the_same_person(cli: Shell, tmp_path: Path) -> None:
    new_organization(cli)
    applied(cli, written(tmp_path / "given", {"users/Bob@Example.ORG.yaml": "name: Bob\n"}))
    admin = {"users/ADMIN@launchbay.local.yaml": "name: Any\nroles: [Administrator]\n"}
    assert "No changes." in applied(cli, written(tmp_path / "given", admin), "--prune")
    twice = written(
        tmp_path / "twice", {"users/bob@example.org.yaml": "name: a\n", "users/BOB@example.org.yaml": "name: a\n"}
    )
    assert "the same person" in cli.run("apply", str(twice), "--yes").stderr


def test_a_directory_refuses_shared_names_secrets_and_unknown_fields(cli: Shell, tmp_path: Path) -> None:
    new_organization(cli)
    pool = (
        "service",
        "create",
        "Hosts",
        "builtin:static_resource_pool",
        "-p",
        'configuration.resources:=["a"]',
    )
    cli.good(*pool)
    cli.good(*pool)
    assert "Several objects are the service 'Hosts'" in cli.run("export", str(tmp_path / "out")).stderr
    hosts = written(tmp_path / "hosts", {"environments/e.yaml": "services: [Hosts]\n"})
    assert "Unknown service 'Hosts'" in cli.run("apply", str(hosts), "--yes").stderr
    new_organization(cli)
    for name, content, problem in (
        (
            "services/a",
            "type: builtin:cloud_account\nparameters: {configuration.credential: hush}\n",
            "holds no secrets",
        ),
        ("services/a", "type: builtin:cloud_account\nsecret: hush\n", "secret: unknown field"),
        ("services/a", "type: 1e3\n", "Unknown service type '1e3'"),
        ("schedules/a", "cron: 0 0 1 1 *\n", "either application or bulk"),
        ("schedules/a", "cron: 0 0 1 1 *\nbulk: {act: destroy, select: {name: ''}}\n", "name is empty"),
        ("schedules/a", "cron: 0 0 1 1 *\nbulk: {act: destroy, select: {statuses: [Gone]}}\n", "no 'Gone'"),
        (
            "schedules/a",
            "cron: 0 0 1 1 *\napplication: shop\nlaunch: {version: 1}\n",
            "version can't be in a directory",
        ),
        ("git-sources/a", "account: a\nurl: https://x.example\n", "Unknown service account 'a'"),
        ("users/no address", "name: x\n", "users/no address.yaml"),
    ):
        directory = written(tmp_path / f"{len(problem)}{name.replace('/', '')}", {f"{name}.yaml": content})
        result = cli.run("apply", str(directory), "--yes")
        assert result.exit_code != 0
        assert problem in result.output
        assert "hush" not in result.stderr


def test_a_change_set_shows_and_makes_them(cli: Shell, tmp_path: Path) -> None:
    new_organization(cli)
    files = {
        "services/My pool.yaml": "type: builtin:static_resource_pool\nparameters: {configuration.resources: [a]}\n",
        "service-accounts/Robot.yaml": "roles: [Guest]\n",
        "users/eve@example.org.yaml": "name: Eve\n",
        "environments/lab.yaml": "services: [My pool]\n",
        "applications/shop/manifest.yaml": GREETER,
        "git-sources/all.yaml": "account: Robot\nurl: https://git.example.org/a.git\npaused: true\n",
        "schedules/a.yaml": "cron: 0 0 1 1 *\napplication: shop\n",
        "schedules/b.yaml": "cron: 0 0 1 1 *\nbulk: {act: label, labels: {a: b}, select: {all: true}}\n",
    }
    result = cli.run("apply", str(written(tmp_path / "given", files)), "--change-set")
    assert result.exit_code == 0, result.output
    assert "+ service My pool" in result.stderr
    assert "+ schedule b" in result.stderr
    assert "still differ" not in result.stderr
    cli.good("change-set", "apply", result.stdout.strip())
    assert "No changes." in applied(cli, tmp_path / "given")
