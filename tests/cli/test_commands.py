"""Every operation of the API is a command, and every command can be loaded and explains itself."""

import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import click
import pytest

from launchbay.app.features import ENDPOINTS
from launchbay.cli.commands import ADDED
from launchbay.cli.main import SECTIONS, main
from launchbay.cli.names import LISTED, LISTING
from launchbay.cli.operation_commands import COMMANDS
from launchbay.cli.verbs import nouns
from launchbay.ids import is_id
from tests.support.cases import hold
from tests.support.documentation import DOCS, blocks
from tests.support.shell import Shell

ENTRIES = {name: entry for section in SECTIONS.values() for name, entry in section.items()}
LEAVES = sorted(
    [(noun, verb) for noun, verbs in nouns().items() for verb in [*verbs, *ADDED.get(noun, {})]]
    + [(name,) for name in ENTRIES if name not in nouns()]
)


def test_every_operation_is_a_verb_of_a_noun_in_the_help() -> None:
    reachable = {operation: noun for noun, verbs in nouns().items() for operation in verbs.values()}
    assert set(reachable) == {endpoint.operation_id for endpoint in ENDPOINTS}
    assert set(reachable.values()) <= set(ENTRIES), "give the noun a line in cli/lazy.py"


def test_every_command_explains_itself(shell: Shell) -> None:
    def explains_itself(*words: str) -> None:
        told = shell.good(*words, "--help")
        assert told.startswith(f"Usage: launchbay {' '.join(words)}")
        assert len(told.splitlines()[2].strip()) > 10

    hold(explains_itself, LEAVES)


def test_the_help_loads_no_command() -> None:
    script = (
        "import sys; from launchbay.cli.main import main; main(['--help'], standalone_mode=False);"
        "print([name for name in ('httpx', 'rich', 'yaml', 'msgspec', 'psycopg', 'uvicorn') if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert told.splitlines()[-1] == "[]"


def test_an_unknown_command_is_told_with_what_may_have_been_meant(shell: Shell) -> None:
    assert "Did you mean 'launch'" in shell.bad(2, "lunch")
    assert "Did you mean 'launch'" in shell.bad(2, "application", "lauch")
    assert "Did you mean 'launchbay destroy'" in shell.bad(2, "instance", "destroy")


def test_the_advice_for_an_unknown_name_is_a_command_that_exists() -> None:
    assert {tuple(command.split()[1:]) for command in LISTING.values()} <= set(LEAVES)
    assert LISTED.keys() <= LISTING.keys()


def test_the_group_of_all_commands_is_one() -> None:
    assert isinstance(main, click.Group)


@pytest.mark.parametrize("kind", ["bash", "zsh", "fish"])
def test_shells_can_complete(kind: str, shell: Shell) -> None:
    assert "_LAUNCHBAY_COMPLETE" in shell.good("completion", kind)


@pytest.mark.slow
def test_completion_offers_commands_verbs_and_options() -> None:
    def completed(*words: str) -> list[str]:
        environ = {"_LAUNCHBAY_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(["launchbay", *words])}
        environ["COMP_CWORD"] = str(len(words))
        script = "from launchbay.cli.main import main; main(prog_name='launchbay')"
        command = [sys.executable, "-c", script]
        told = subprocess.run(command, check=False, capture_output=True, text=True, env=environ).stdout
        return [line.partition(",")[2] for line in told.splitlines()]

    assert "launch" in completed("la")
    assert {"show", "run"} <= set(completed("instance", ""))
    assert "--wait" in completed("launch", "--w")


def test_each_endpoint_has_a_command_of_its_own_which_follows_from_its_id_unless_it_says_another() -> None:
    commands = {each.operation_id: each.command or each.rule_command for each in ENDPOINTS}
    assert commands == dict(COMMANDS)
    twice = [command for command, number in Counter(commands.values()).items() if number > 1]
    assert not twice, f"give one of the endpoints another command=: {twice}"
    by_id = {each.operation_id: each for each in ENDPOINTS}
    assert by_id["list_roles"].rule_command == "role list"
    assert by_id["read_policies"].rule_command == "policy show"
    assert by_id["replace_group_roles"].rule_command == "group-role set"
    assert by_id["begin_sign_in"].rule_command == "page begin-sign-in"


def test_an_endpoint_does_not_say_the_command_that_follows_from_its_id() -> None:
    found = next(each for each in ENDPOINTS if each.operation_id == "list_roles")
    with pytest.raises(AssertionError, match="its command follows from its id"):
        replace(found, command="role list")
    with pytest.raises(AssertionError, match="not a noun and a verb"):
        replace(found, command="roles")


def test_a_check_of_a_role_tells_in_sentences_who_gains_and_loses_what(cli: Shell) -> None:
    number = cli.good("application", "create", "checked").strip()
    for role in ("Checked readers", "Readers of one"):
        cli.good("role", "create", role, "--permissions", "[{Read: [/*]}]")
    cli.good("user", "create", "Kim Lee", "--email", "kim@example.org", "--password", "wheel barrow 73 tulip")
    cli.good("user", "assign-roles", "kim@example.org", "Checked readers")
    text = f"[{{EditInstance: [/applications/{number}, /applications/{'0' * 24}]}}]"
    assert cli.good("role", "check", text, "--role", "Checked readers").splitlines() == [
        "The text can be saved.",
        f"Warning: EditInstance: nothing has the ID {'0' * 24}, so the pattern allows nothing.",
        "",
        "Who gains and loses what:",
        "  Kim Lee",
        "    + EditInstance on /applications/checked",
        f"    + EditInstance on /applications/{'0' * 24}",
        "    - Read on everything",
    ]
    cli.good("user", "assign-roles", "kim@example.org", "Readers of one")
    told = cli.good("role", "check", text, "--role", "Checked readers")
    assert "  Kim Lee\n" in told
    assert "    = Read on everything  (stays, by another role)" in told
    same = cli.good("role", "check", "[{Read: [/*]}]", "--role", "Checked readers")
    assert "  Kim Lee\n    gains and loses nothing\n" in same
    assert "No one holds the role, so no one gains or loses anything." in cli.good("role", "check", "[{Read: [/*]}]")
    assert "'Reed' is not a permission." in cli.bad(9, "role", "check", "[{Reed: [/*]}]")
    assert "put it into @FILE" in cli.bad(2, "role", "check", "- Read: [/*]")


def test_a_check_of_a_role_lists_recent_changes_that_it_would_have_refused(cli: Shell) -> None:
    cli.good("role", "create", "Checked builders", "--permissions", "[{EditApplication: [/*]}, {Read: [/*]}]")
    cli.good("user", "create", "Lou", "--email", "lou@example.org", "--password", "wheel barrow 73 tulip")
    cli.good("user", "assign-roles", "lou@example.org", "Checked builders")
    number = cli.good("application", "create", "built").strip()
    lou = replace(cli, environ={**cli.environ, "LAUNCHBAY_EMAIL": "lou@example.org"})
    lou.environ["LAUNCHBAY_PASSWORD"] = "wheel barrow 73 tulip"
    lou.good("application", "rename", number, "rebuilt")
    said = cli.good("role", "check", "[{Read: [/*]}]", "--role", "Checked builders")
    assert "Of the last change by its holders, it would have refused 1:" in said, said
    assert "  lou@example.org  rename_application  /applications/rebuilt  needs EditApplication\n" in said, said


def test_creates_and_lists_print_only_ids_when_quiet(cli: Shell) -> None:
    role = cli.good("role", "create", "quiet", "--permissions", "- Read: [/*]", "--quiet").strip()
    assert is_id(role)
    assert role in cli.good("role", "list", "--quiet").split()
    environment = cli.good("environment", "create", "quiet", "--quiet").strip()
    listed = cli.good("environment", "list", "--quiet").split()
    assert environment in listed
    assert all(map(is_id, listed))
    cli.good("application", "create", "quiet")
    assert cli.good("instance", "list", "--application", "quiet", "--quiet") == ""


def test_a_secret_that_is_shown_once_cannot_be_lost_by_quiet(cli: Shell) -> None:
    assert "No such option" in cli.bad(2, "access-token", "create", "ci", "--quiet")


def test_roles_of_groups_are_set_as_the_page_of_sign_in_says(cli: Shell, tmp_path: Path) -> None:
    page = DOCS / "howto" / "sign-in-with-openid.md"
    assert "`launchbay organization set-group-roles @groups.json`" in page.read_text("utf-8")
    [text] = [block.text for block in blocks(page) if block.language == "json"]
    (tmp_path / "groups.json").write_text(text)
    cli.good("organization", "set-group-roles", f"@{tmp_path / 'groups.json'}")
    shown = cli.document("organization", "group-roles")
    assert sorted(shown, key=str) == sorted(json.loads(text), key=str)
