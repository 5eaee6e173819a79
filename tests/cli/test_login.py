"""Signing in keeps a token for the next commands, in a file that nobody else can read, and never the password."""

import json
import re
import stat
from pathlib import Path

import pytest

from launchbay.cli.connection import write_private
from launchbay.client import Client
from tests.support.servers import Bay
from tests.support.service import EMAIL, PASSWORD
from tests.support.shell import Shell


def signed_in(shell: Shell, server: Bay, *more: str) -> Shell:
    shell.good("login", server.url, "--email", EMAIL, "--password-stdin", *more, stdin=f"{PASSWORD}\n")
    return shell


def generated(server: Bay) -> str:
    with Client(server.url) as client:
        found = re.search(r"lbr_[\w-]+", client.generate_token(email=EMAIL, password=PASSWORD, label="by hand"))
    assert found is not None
    return found[0]


def test_after_signing_in_commands_need_nothing_else(shell: Shell, server: Bay) -> None:
    signed_in(shell, server)
    assert shell.document("organization", "list")[0]["id"] == server.organization
    kept = "".join(path.read_text("utf-8") for path in shell.config.iterdir())
    assert PASSWORD not in kept
    assert {stat.S_IMODE(path.stat().st_mode) for path in shell.config.iterdir()} == {0o600}
    assert stat.S_IMODE(shell.config.stat().st_mode) == 0o700


def test_one_session_serves_several_commands(shell: Shell, server: Bay) -> None:
    signed_in(shell, server)
    shell.good("organization", "list")
    before = (shell.config / "credentials.json").read_text("utf-8")
    shell.good("organization", "list")
    assert (shell.config / "credentials.json").read_text("utf-8") == before
    assert json.loads(before)["default"]["session"]


def test_signing_out_revokes_the_token(shell: Shell, server: Bay) -> None:
    signed_in(shell, server)
    count = len(server.call("GET", "tokens"))
    shell.good("logout")
    assert len(server.call("GET", "tokens")) == count - 1
    assert "launchbay login" in shell.bad(4, "organization", "list")
    shell.good("logout")


def test_signing_in_again_leaves_no_token_behind(shell: Shell, server: Bay) -> None:
    signed_in(shell, server)
    count = len(server.call("GET", "tokens"))
    signed_in(shell, server)
    assert len(server.call("GET", "tokens")) == count


def test_a_changed_password_ends_the_sessions_and_says_so(shell: Shell, server: Bay) -> None:
    shell = Shell.of(server, shell.config)
    other = f"another {PASSWORD}"
    change = ("account", "change-password", "--current-password")
    result = shell.run(*change, PASSWORD, "--new-password", other)
    assert "All sessions and refresh tokens of the account ended." in result.stderr
    assert "run: launchbay login" in result.stderr
    shell.environ["LAUNCHBAY_PASSWORD"] = other
    shell.good(*change, other, "--new-password", PASSWORD)


def test_a_wrong_password_keeps_nothing(shell: Shell, server: Bay) -> None:
    told = shell.bad(4, "login", server.url, "--email", EMAIL, "--password-stdin", stdin="wrong\n")
    assert "password" in told
    assert not shell.config.exists()


def test_a_refresh_token_of_the_page_will_do_unless_a_variable_is_empty(shell: Shell, server: Bay) -> None:
    shell.good("login", server.url, "--token", stdin=f"{generated(server)}\n")
    assert shell.document("organization", "list")
    shell.environ = {"LAUNCHBAY_TOKEN": ""}
    told = shell.bad(4, "organization", "list")
    assert "LAUNCHBAY_TOKEN is empty. Set it to a token, or unset it" in told
    shell.good("server", "live")
    shell.environ |= {"LAUNCHBAY_EMAIL": EMAIL, "LAUNCHBAY_PASSWORD": PASSWORD}
    assert shell.document("organization", "list")


def test_profiles_are_replaced_with_a_word_listed_used_changed_and_removed(shell: Shell, server: Bay) -> None:
    profiles = {"current": "default", "profiles": {"default": {"url": "https://other.example.org"}}}
    write_private(shell.config / "config.json", profiles)
    words = ("login", server.url, "--email", EMAIL, "--password-stdin")
    replaced = shell.run(*words, stdin=f"{PASSWORD}\n").stderr
    assert "This replaces the profile 'default' for https://other.example.org." in replaced
    other = ("--profile", "other", "--organization", "Default")
    switched = shell.run(*words, *other, stdin=f"{PASSWORD}\n").stderr
    assert "This replaces" not in switched
    assert "Commands now use the profile 'other'. To go back: launchbay profile use default" in switched
    listed = {each["name"]: each for each in json.loads(shell.good("profile", "list", "-o", "json"))}
    assert (listed["other"]["current"], listed["other"]["organization"]) == (True, "Default")
    shell.good("profile", "use", "default")
    shell.good("profile", "set", "output", "json")
    assert json.loads(shell.good("organization", "list"))
    assert "Did you mean 'other'" in shell.bad(3, "profile", "use", "othr")
    shell.good("profile", "remove", "other")
    assert "Unknown profile 'other'" in shell.bad(2, "organization", "list", "--profile", "other")


def test_a_failed_login_says_which_profile_the_next_commands_use(shell: Shell, server: Bay) -> None:
    profiles = {"current": "default", "profiles": {"default": {"url": "https://other.example.org"}}}
    write_private(shell.config / "config.json", profiles)
    words = ("login", server.url, "--email", EMAIL, "--password-stdin")
    told = shell.bad(4, *words, "--profile", "own", stdin="wrong\n")
    assert "Commands still use the profile 'default' at https://other.example.org. To choose the server" in told
    assert "still use" not in shell.bad(4, *words, stdin="wrong\n")


def test_variables_win_over_profiles(shell: Shell, server: Bay) -> None:
    shell.environ = {"LAUNCHBAY_URL": server.url, "LAUNCHBAY_TOKEN": generated(server)}
    assert shell.document("organization", "list")
    shell.environ["LAUNCHBAY_TOKEN"] = "lbr_wrong"
    assert shell.bad(4, "organization", "list")


def test_a_token_that_no_header_can_hold_is_refused_and_not_shown(shell: Shell, server: Bay) -> None:
    shell.environ = {"LAUNCHBAY_URL": server.url, "LAUNCHBAY_TOKEN": "s3cr3t\nb"}
    told = shell.bad(4, "organization", "list")
    assert "LAUNCHBAY_TOKEN isn't a token" in told
    assert "s3cr3t" not in told


def test_without_a_server_the_first_step_is_told(shell: Shell) -> None:
    assert "launchbay login https://" in shell.bad(2, "application", "list")


def test_a_token_needs_the_right_password_and_no_hint_to_sign_in(shell: Shell, server: Bay) -> None:
    shell.environ = {"LAUNCHBAY_URL": server.url}
    told = shell.bad(4, "token", "create", "--email", EMAIL, "--password", "y")
    assert "The email address or the password is wrong." in told
    assert "launchbay login" not in told


def test_signing_out_without_a_server_names_the_token_to_revoke_later(shell: Shell, server: Bay) -> None:
    signed_in(shell, server)
    number = json.loads((shell.config / "credentials.json").read_text("utf-8"))["default"]["token_id"]
    shell.good("profile", "set", "url", "http://127.0.0.1:9")
    told = shell.run("logout").stderr
    assert f"To revoke it, sign in again and run: launchbay token revoke {number}" in told


@pytest.mark.slow
def test_a_server_that_is_away_ends_with_7(shell: Shell) -> None:
    shell.environ = {"LAUNCHBAY_URL": "http://127.0.0.1:9"}
    assert "did not answer" in shell.bad(7, "server", "live")


@pytest.mark.slow
def test_a_password_is_not_sent_openly_without_a_warning(shell: Shell, server: Bay) -> None:
    told = shell.run("login", "http://0.0.0.0:9", "--email", EMAIL, "--password-stdin", stdin="x\n")
    assert (told.exit_code, "isn't encrypted" in told.stderr) == (7, True)
    here = shell.run("login", server.url, "--email", EMAIL, "--password-stdin", stdin=f"{PASSWORD}\n")
    assert "isn't encrypted" not in here.stderr


def test_a_broken_configuration_is_told_with_its_place(shell: Shell) -> None:
    shell.config.mkdir()
    (shell.config / "config.json").write_text("{", "utf-8")
    assert "config.json" in shell.bad(2, "application", "list")


def test_a_private_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "private.json"
    write_private(path, {"a": 1})
    with pytest.raises(TypeError):
        write_private(path, {"a": object()})
    assert json.loads(path.read_text("utf-8")) == {"a": 1}
    assert [each.name for each in tmp_path.iterdir()] == ["private.json"]


def test_a_password_that_somebody_else_chose_is_replaced_at_the_login(shell: Shell, server: Bay) -> None:
    Shell.of(server, shell.config).good(
        "user", "create", "Cy", "--email", "cy@example.org", "--password", "harbor lantern 88"
    )
    words = ("login", server.url, "--email", "cy@example.org", "--profile", "cy")
    told = shell.bad(5, *words, "--password-stdin", stdin="harbor lantern 88\n")
    assert "Somebody else chose this password." in told
    assert f"{server.url}/console/newPassword" in told
    own = "another lantern 99\n"
    assert "Choose your own." in shell.run(*words, stdin=f"harbor lantern 88\n{own}{own}").stderr
    shell.good(*words, "--password-stdin", stdin=own)


def test_wrong_credentials_of_a_variable_are_named(shell: Shell, server: Bay) -> None:
    shell.environ |= {"LAUNCHBAY_URL": server.url, "LAUNCHBAY_TOKEN": "lbr_nothing"}
    assert "The credentials are those of LAUNCHBAY_TOKEN." in shell.bad(4, "organization", "list")
