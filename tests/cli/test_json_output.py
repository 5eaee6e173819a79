"""With `-o json`, standard output is JSON: of every command that reads, and of those that print one string."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import pytest

from launchbay.cli.verbs import all_operations, nouns
from tests.support.manifests import FERRY
from tests.support.service import EMAIL
from tests.support.shell import COMMANDS, Shell

STREAMS = {"instance log", "instance events", "organization archive-lines"}  # a document a line; the second never ends
# They show objects that take long to make, by the same function as the others.
OF_MORE = {"approval", "change_set", "delivery", "git_source", "number", "rollout"}


def arguments(command: click.Command) -> list[str]:
    return [(each.name or "").removesuffix("_id") for each in command.params if isinstance(each, click.Argument)]


@pytest.fixture
def known(cli: Shell, tmp_path: Path) -> dict[str, str]:
    """An object of most kinds, by the name of the argument that takes it."""
    name = f"ferry of {tmp_path.name}"
    file = tmp_path / "manifest.yaml"
    file.write_text(FERRY, "utf-8")
    cli.good("application", "create", name)
    cli.good("manifest", "upload", name, str(file))
    instance = cli.good("launch", name, "--wait", "-o", "json")
    made: dict[str, Any] = {"instance": json.loads(instance)["id"], "other": json.loads(instance)["id"]}
    made["webhook"] = cli.document("webhook", "create", "https://example.org/hook", "--events", "job")["id"]
    made["service_account"] = cli.document("service-account", "create", name)["id"]
    made["service"] = cli.document("service", "create", name, "builtin:cobalt_secure_store")["id"]
    made["revision"] = cli.document("revision", "create", name, "stable", "--version", "1")["id"]
    schedule = ("--cron", "0 0 1 1 *", "--instance", made["instance"], "--workflow", "manage.move", "-p", "delay=1s")
    made["recurring_schedule"] = cli.document("recurring-schedule", "create", name, *schedule, "--paused")["id"]
    made["bulk"] = cli.document("bulk", "create", "resume", "--instance", made["instance"])["id"]
    return made | {
        "application": name,
        "environment": "default",
        "job": "last",
        "kind": "vault",
        "role": "Administrator",
        "user": EMAIL,
        "version": "1",
        "name": "default",
    }


def test_what_every_reading_command_prints_is_json(cli: Shell, known: dict[str, str]) -> None:
    unlike: dict[str, str] = {}
    tried = 0
    operations = {f"{noun} {verb}": name for noun, verbs in nouns().items() for verb, name in verbs.items()}
    for path, context in COMMANDS.items():
        words = path.split()[1:]
        operation = all_operations().get(operations.get(" ".join(words), ""))
        needed = arguments(context.command)
        if operation is None or operation.row.method != "GET" or " ".join(words) in STREAMS or OF_MORE & {*needed}:
            continue
        required = [each for each in context.command.params if isinstance(each, click.Option) and each.required]
        if required or {*needed} - {*known}:
            continue
        found = cli.run(*words, *(known[each] for each in needed), "-o", "json")
        if found.exit_code == 0:
            tried += 1
            try:
                json.loads(found.stdout)
            except ValueError:
                unlike[path] = found.stdout[:80]
    assert unlike == {}
    assert tried > 90, tried


def test_every_line_of_a_stream_is_json(cli: Shell, known: dict[str, str]) -> None:
    lines = cli.good("instance", "log", known["instance"], "-o", "json").splitlines()
    assert lines
    assert all(isinstance(json.loads(line), dict) for line in lines)


def test_a_refresh_token_is_json_if_asked(cli: Shell) -> None:
    cli.good("user", "create", "Tom", "--email", "tom@example.org", "--password", "a good password")
    # An account of its own: the tokens of one account in an hour are bounded.
    tom = Shell(
        cli.config, {**cli.environ, "LAUNCHBAY_EMAIL": "tom@example.org", "LAUNCHBAY_PASSWORD": "a good password"}
    )
    tom.good(
        "account", "change-password", "--current-password", "a good password", "--new-password", "another password"
    )
    given = ("--email", "tom@example.org", "--password", "another password")
    for words in (("token", "create", *given), ("token", "generate", *given)):
        assert json.loads(cli.good(*words, "-o", "json"))["token"].startswith("lbr_")
        assert cli.good(*words).startswith("lbr_"), "scripts read it as it is"


def test_a_tag_is_json_if_asked(cli: Shell, known: dict[str, str]) -> None:
    words = ("instance", "show", known["instance"], "--etag")
    assert json.loads(cli.good(*words, "-o", "json")) == cli.good(*words).strip()


def test_a_bulk_run_prints_its_id_for_the_next_command(cli: Shell, known: dict[str, str]) -> None:
    made = cli.run("bulk", "create", "label", "--instance", known["instance"], "--set-label", "team=web")
    bulk = made.stdout.strip()
    assert f"launchbay bulk wait {bulk}" in made.stderr
    assert cli.document("bulk", "wait", bulk)["id"] == bulk


def test_a_launch_says_when_its_instance_ends(cli: Shell, known: dict[str, str]) -> None:
    made = cli.run("launch", known["application"], "--destroy-interval", "2h")
    life = cli.document("instance", "lifetime", made.stdout.strip())
    at = datetime.fromisoformat(life["destroyAt"]).astimezone()
    assert f"Launchbay destroys the instance at {at:%Y-%m-%d %H:%M:%S}." in made.stderr
    never = cli.run("launch", known["application"], "--destroy-interval", "never", "--wait")
    assert "No end is set. Set one: launchbay instance set-destroy-at" in never.stderr
