"""`launchbay explain` and `launchbay docs`: what the pages say, without a server and with one."""

import json
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import pytest

from launchbay.cli.lazy import DOCUMENTATION, DOCUMENTATION_OF_RULES
from launchbay.documentation import pages
from tests.support.cases import hold
from tests.support.shell import Shell


@pytest.fixture
def alone(tmp_path: Path) -> Shell:
    """A user without a server."""
    return Shell(tmp_path, {"LAUNCHBAY_URL": ""})


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("InvalidParameters", "A parameter is missing, unknown, or doesn't match its type."),
        ("invalidparameters", "InvalidParameters (error)"),
        ("UnknownAction", "UnknownAction (finding)"),
        ("LAUNCHBAY_QUEUE_LIMIT", "queue_limit (setting)"),
        ("restcall", "restcall (action)"),
        ("launchbay_workers", "Type: gauge"),
        ("8", "The time of `--timeout` is over."),
        ("exit code 8", "The time of `--timeout` is over."),
        ("CreateInstance", "CreateInstance (permission)"),
        ("CreateInstance", "Launch applications. One entry has to match both the application and the environment."),
        ("EditApplication", "**Entry of a role.** `- EditApplication: [/applications/*]`"),
        ("EditApplication", "**Not included.** Launching (`CreateInstance`)"),
        ("LaunchbayNoWorkers", "No server or worker has sent a heartbeat recently"),
        ("change-set apply", "launchbay change-set apply (command)"),
    ],
)
def test_a_name_is_explained_without_a_server(alone: Shell, words: str, shown: str) -> None:
    printed = alone.good("explain", *words.split())
    assert shown in printed
    assert "\nPage: " in printed


def test_an_explanation_has_the_texts_of_its_links(alone: Shell) -> None:
    printed = alone.good("explain", "Read")
    assert "list_users, read_user" in printed
    assert "](" not in printed


def test_a_status_explains_all_its_errors(alone: Shell) -> None:
    printed = alone.good("explain", "409")
    assert "Conflict (error)" in printed
    assert "InstanceBusy (error)" in printed


def test_an_unknown_name_gets_similar_ones_and_the_search(alone: Shell) -> None:
    told = alone.bad(3, "explain", "InvalidParameter")
    assert "Did you mean" in told
    assert "'InvalidParameters'" in told
    assert "launchbay docs InvalidParameter" in told


def test_programs_get_an_explanation_as_a_document(alone: Shell) -> None:
    (entry,) = json.loads(alone.good("explain", "port", "-o", "json"))
    assert (entry["kind"], entry["name"], entry["page"], entry["url"]) == (
        "setting",
        "port",
        "reference/settings#port",
        None,
    )


def test_with_a_server_both_commands_name_its_pages(tmp_path: Path) -> None:
    user = Shell(tmp_path, {"LAUNCHBAY_URL": "https://bay.example.org/"})
    assert user.good("docs") == "https://bay.example.org/docs/index\n"
    assert user.good("docs", "howto/upgrade") == "https://bay.example.org/docs/howto/upgrade\n"
    assert user.good("docs", "upgrade") == "https://bay.example.org/docs/howto/upgrade\n"
    assert user.good("docs", "howto/watch") == "https://bay.example.org/docs/howto/monitor\n"  # as it was called
    assert user.good("docs", "QueueFull") == "https://bay.example.org/docs/reference/errors#queuefull\n"
    assert "Page: https://bay.example.org/docs/reference/errors#queuefull" in user.good("explain", "QueueFull")


def test_without_a_server_the_page_itself_is_printed(alone: Shell) -> None:
    assert alone.good("docs", "tutorial").startswith("# ")
    assert alone.good("docs", "QueueFull").startswith("## `QueueFull`")


def test_a_place_of_the_search_opens_there(alone: Shell) -> None:
    place = "howto/restore#restore-without-the-key"
    assert place in alone.good("docs", "restore without key")
    assert alone.good("docs", place).startswith("## Restore without the key")
    assert alone.good("docs", "howto/restore#gone").startswith("# ")


def test_other_words_search_the_pages(alone: Shell) -> None:
    assert "howto/recurring-schedules" in alone.good("docs", "cron expression")
    assert "No page has any of the words" in alone.bad(3, "docs", "zzxqy")
    assert "howto/rotate-the-key" in alone.good("docs", "rotate", "zzxqy", "key")
    assert alone.good("docs", "canary").startswith("Change many instances safely\n  howto/change-safely")


def test_the_help_of_a_noun_names_a_page(alone: Shell) -> None:
    hold(partial(_names_a_page, alone), DOCUMENTATION.items())


def _names_a_page(alone: Shell, noun: str, page: str) -> None:
    assert alone.good(noun, "--help").endswith(f"Documentation: launchbay docs {page}\n")
    assert page in pages()


@pytest.mark.parametrize(("ruled", "page"), DOCUMENTATION_OF_RULES.items())
def test_the_help_of_a_command_that_sets_rules_names_their_page(alone: Shell, ruled: str, page: str) -> None:
    noun = "organization" if ruled == "promotion-order" else "environment"
    for verb in {ruled, ruled if ruled == "rule-versions" else f"set-{ruled}"}:
        assert alone.good(noun, verb, "--help").endswith(f"Documentation: launchbay docs {page}\n")
    assert page in pages()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("instance", "show", "0" * 24), "NotFound"),
        (("bulk", "create", "resume", "--last", "Failed", "--search", "nothing"), "NothingChosen"),
        (("role", "create", "explained", "--permissions", "[{Reed: [/*]}]"), "InvalidRole"),
        (("webhook", "create", "ftp://x", "--events", "job"), "InvalidUrl"),
        (("service", "create", "explained", "builtin:nothing"), "UnknownServiceType"),
        (("organization", "jobs", "--after", "x"), "InvalidCursor"),
        (("user", "create", "X", "--email", "x", "--password", "y"), "InvalidEmail"),
        (("environment", "delete", "default", "--yes"), "DefaultEnvironment"),
        (("application", "create", " "), "InvalidName"),
        (("organization", "instances", "--labels", "a b"), "InvalidSelector"),
    ],
)
def test_an_error_prints_the_address_of_its_page_which_opens_at_its_heading(
    cli: Shell, words: tuple[str, ...], code: str
) -> None:
    told = cli.run(*words).stderr
    assert f"({code}, request " in told
    address = told.split()[-1]
    assert address == f"{cli.environ['LAUNCHBAY_URL']}/docs/codes/{code}"
    with urlopen(address) as page:
        anchor = page.url.rpartition("#")[2]
        assert f'id="{anchor}"' in page.read().decode()


def test_an_error_and_findings_name_the_command_that_explains_them(alone: Shell, tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text("launch:\n  steps:\n    - go: { action: wiat }\n", "utf-8")
    assert alone.bad(1, "validate", str(manifest)).endswith("launchbay explain UnknownAction\n")
